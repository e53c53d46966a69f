"""The first message of an episode, from a template file that a user can replace."""

from functools import cache
from importlib import resources
from pathlib import Path

from jinja2 import Environment, StrictUndefined, TemplateError

from graphwalker.errors import UserError
from graphwalker.protocol.escape import escape_name, escape_tags
from graphwalker.types import Question

_INTERACTIVE = ("interactive_freebase", "interactive_grailqa", "interactive_kqapro", "interactive_compact")
BUILT_IN = ("graphwalker", "compact", *_INTERACTIVE, "logic_form")


class Prompt:
    """The user message that opens an episode.

    `template` is a built-in name (`BUILT_IN`) or the path of a Jinja file. It may use `question` (text), `entities`
    (names of the topic entities), `max_turns` and `max_relations` (counts). Neither text can hold a protocol or
    chat-control tag. Raises `UserError` when the file is missing, cannot be read as a template or uses another name.
    """

    def __init__(self, template: str | Path = "graphwalker", *, max_turns: int = 10, max_relations: int = 4):
        self.template = str(template)
        self._variables = {"max_turns": max_turns, "max_relations": max_relations}
        name = f"prompt_{template}.jinja"
        self._source = read_template(name) if self.template in BUILT_IN else _read_file(Path(template))
        try:
            self._compiled = Environment(undefined=StrictUndefined, autoescape=False).from_string(self._source)
        except TemplateError as error:
            raise UserError(f"prompt template {template}: {error}") from error

    def text(self, question: Question) -> str:
        """The message's content."""
        entities = [escape_name(entity.name) for entity in question.topic_entities]
        try:
            return self._compiled.render(question=escape_tags(question.text), entities=entities, **self._variables)
        except TemplateError as error:
            raise UserError(f"prompt template {self.template}: {error}") from error

    def messages(self, question: Question) -> list[dict[str, str]]:
        """The conversation before the first turn."""
        return [{"role": "user", "content": self.text(question)}]


@cache
def read_template(name: str) -> str:
    """A template of this package, without the newline at the end of its file."""
    return (resources.files("graphwalker.protocol") / "templates" / name).read_text("utf-8").removesuffix("\n")


def final_answer() -> str:
    """The line that ends the last observation before the turn that must answer."""
    return read_template("final_answer.jinja")


def _read_file(path: Path) -> str:
    try:
        return path.read_text("utf-8").removesuffix("\n")
    except (OSError, UnicodeDecodeError) as error:
        built_in = ", ".join(BUILT_IN)
        raise UserError(f"prompt template {path} cannot be read ({error}); built in are: {built_in}") from error
