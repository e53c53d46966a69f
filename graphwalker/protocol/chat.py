"""How episodes become chat messages, and how a tokenizer learns to render and to parse them."""

import json
import re
from collections.abc import Iterable
from functools import cache
from typing import Any, NamedTuple

from jinja2 import Template
from jinja2.ext import Extension
from jinja2.parser import Parser
from jinja2.sandbox import ImmutableSandboxedEnvironment

from graphwalker.errors import UserError
from graphwalker.protocol.interactive import OBSERVATION, PROTOCOL
from graphwalker.protocol.prompts import Prompt, read_template
from graphwalker.types import Trajectory

TOOL_NAME = "kg_query"


class Family(NamedTuple):
    """How a family of models writes a conversation: ``begin``, then ``open + role + body + text + end + gap`` a turn.

    ``tokens`` are the special tokens among these; a tokenizer that has them all is of the family. ``assistant`` and
    ``system`` are the names it has for these roles.
    """

    tokens: tuple[str, ...]
    begin: str
    open: str
    body: str
    end: str
    gap: str
    assistant: str = "assistant"
    system: str = "system"

    @property
    def template(self) -> str:
        """The Jinja chat template, whole in itself: a tokenizer is saved with it."""
        fields = self._fields[1:]
        values = ", ".join(json.dumps(getattr(self, field)) for field in fields)
        return f"{{%- set {', '.join(fields)} = {values} %}}" + read_template("chat.jinja")

    @property
    def response_template(self) -> dict[str, Any]:
        """What maps a model's text to a message: its raw query becomes the argument of the one tool, unparsed.

        So a malformed query still reaches the environment and gets an observation.
        """
        call = {"name": TOOL_NAME, "arguments": {"query": "{content}"}}
        return {
            "defaults": {"role": "assistant"},
            "start_anchor": f"{self.open}{self.assistant}{self.body}",
            "fields": {
                "reasoning_content": {"open": "<think>", "close_pattern": r"</think>\s*", "content": "text"},
                "tool_calls": {
                    "open": "<kg-query>",
                    "close_pattern": r"</kg-query>\s*",
                    "repeats": True,
                    "content": "text",
                    "transform": {"type": "function", "function": call},
                },
                "content": {"close_pattern": re.escape(self.end) + r"\s*", "content": "text"},
            },
        }


CHATML = Family(("<|im_start|>", "<|im_end|>"), "", "<|im_start|>", "\n", "<|im_end|>", "\n")
_LLAMA3 = ("<|begin_of_text|>", "<|start_header_id|>", "<|end_header_id|>", "<|eot_id|>")
LLAMA3 = Family(_LLAMA3, _LLAMA3[0], _LLAMA3[1], _LLAMA3[2] + "\n\n", _LLAMA3[3], "")
_GEMMA = ("<bos>", "<start_of_turn>", "<end_of_turn>")
GEMMA = Family(_GEMMA, _GEMMA[0], _GEMMA[1], "\n", _GEMMA[2], "\n", assistant="model", system="user")  # Gemma 2 and 3
FAMILIES = (CHATML, LLAMA3, GEMMA)
TURN_START, TURN_END = CHATML.tokens  # of the family that a tokenizer without turn tokens is given


def family_of(tokenizer: Any) -> Family | None:
    """The family whose turn tokens a tokenizer has; of several, the one whose end of turn ends its sequences."""
    vocabulary = tokenizer.get_vocab()
    fitting = [family for family in FAMILIES if all(token in vocabulary for token in family.tokens)]
    return min(fitting, key=lambda family: family.end != tokenizer.eos_token, default=None)


def install(tokenizer: Any) -> None:
    """Give a `transformers` tokenizer the chat template and the response template of the protocol.

    The end-of-turn token becomes its end-of-sequence token: generation stops there, and training must see it.
    Raises `UserError` when the tokenizer lacks the turn tokens as single tokens.
    """
    family = family_of(tokenizer)
    if family is None:
        missing = [token for token in CHATML.tokens if token not in tokenizer.get_vocab()]
        raise UserError(f"the tokenizer has no token {' or '.join(missing)}: add them and resize the embeddings first")
    tokenizer.chat_template = family.template
    tokenizer.response_template = family.response_template
    tokenizer.eos_token = family.end


def messages(trajectory: Trajectory, prompt: Prompt) -> list[dict[str, str]]:
    """The whole conversation: the user's message, then each turn and its observation, if it got one."""
    return prompt.messages(trajectory.question) + turn_messages(trajectory)


def turn_messages(trajectory: Trajectory) -> list[dict[str, str]]:
    """The turns and their observations; an answer ends the episode, so no observation follows it.

    An observation is a tool's message, in the interactive protocol (``extra["protocol"]``) a user's.
    """
    interactive = trajectory.extra.get("protocol") == PROTOCOL
    result = []
    for turn in trajectory.turns:
        result.append({"role": "assistant", "content": turn.text})
        if turn.observation:
            result.append(observation_message(turn.observation, "user" if interactive else "tool"))
    return result


def shown_first(examples: Iterable[Trajectory], prompt: Prompt) -> list[dict[str, str]]:
    """Worked examples as the beginning of a conversation, in roles that every chat model knows."""
    conversation = [message for example in examples for message in messages(example, prompt)]
    return parse(render(conversation)) if conversation else []


def parse(text: str) -> list[dict[str, str]]:
    """The messages of what `render` wrote, an observation as its reader's message; an empty last turn is left out."""
    parts = [part.partition("\n") for part in text.split(TURN_START)[1:]]
    found = [{"role": role, "content": body.rpartition(TURN_END)[0] or body} for role, _, body in parts]
    return found if found[-1]["content"] else found[:-1]


def observation_message(body: str, role: str = "tool") -> dict[str, str]:
    """An observation as a message of an environment's ``role``: "tool" (GraphWalker) or "user" (interactive)."""
    if role == "user":
        return {"role": "user", "content": OBSERVATION + body}
    return {"role": "tool", "name": TOOL_NAME, "content": body}


def render(conversation: list[dict[str, str]], *, open_turn: bool = False) -> str:
    """A conversation as the chat template writes it, without a tokenizer (which may have to be trained on it).

    ``open_turn``: the model's next turn begins at its end.
    """
    return _template().render(messages=conversation, add_generation_prompt=open_turn)


@cache
def _template() -> Template:
    environment = ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True, extensions=[_Generation])
    return environment.from_string(CHATML.template)


class _Generation(Extension):
    """Lets Jinja read the `generation` blocks that `transformers` uses to mark the trained text."""

    tags = {"generation"}  # noqa: RUF012 (Jinja's own interface)

    def parse(self, parser: Parser) -> Any:
        next(parser.stream)
        return parser.parse_statements(("name:endgeneration",), drop_needle=True)
