"""ArG's text: a path over the graph, and the reflection tokens that judge it (Zhang et al.; Table 1, appendix A).

A path is one assistant's message after the prompt, which gives the question and the one topic entity it starts from. A
hop is ``[Relation Retrieval]<paragraph>RELATION</paragraph>``, the relation's relevance, ``[Entity Retrieval]
<paragraph>ENTITY</paragraph>`` (without a break), the entity's relevance, and how reasonable the path is so far. It
ends in ``[No Retrieval]ANSWER; ANSWER[Utility:5]``, which after ``[Unreasonable]`` follows at once. Neither Algorithm 1
nor Algorithm 2 prints which token stands where, and Figure 4 is a picture: this is a reading of them and of Table 6.

A candidate that is judged and not followed is a text of its own, cut after its label: the path before it, then the
candidate. So every candidate is judged after the same prefix, whatever the others are.

A relation that is walked from its tail to its head is written with ``^`` before it. Names are written by `write_name`:
none can forge a token or end an answer.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Literal

from graphwalker.errors import UserError
from graphwalker.protocol.escape import escape_name, unescape_name
from graphwalker.protocol.prompts import Prompt
from graphwalker.types import Entity, Question

PROTOCOL = "reflection"

RETRIEVE_RELATION, RETRIEVE_ENTITY, NO_RETRIEVAL = RETRIEVAL = (
    "[Relation Retrieval]",
    "[Entity Retrieval]",
    "[No Retrieval]",
)
"""What the path needs next: a relation, an entity, or nothing more (the answer follows)."""
FULLY_RELEVANT, PARTIALLY_RELEVANT, UNRELEVANT = RELEVANCE = (
    "[Fully Relevant]",
    "[Partially Relevant]",
    "[Unrelevant]",
)
"""Whether what was retrieved helps to answer; best first. Appendix A prints the last as ``[Irrelevant]``."""
FULLY_REASONABLE, PARTIALLY_REASONABLE, UNREASONABLE = RATIONALITY = (
    "[Fully Reasonable]",
    "[Partially Reasonable]",
    "[Unreasonable]",
)
"""Whether the path so far is logical and coherent; best first."""
UTILITY = ("[Utility:1]", "[Utility:2]", "[Utility:3]", "[Utility:4]", "[Utility:5]")
"""How useful the answer is; worst first, so that ``UTILITY[n - 1]`` is n."""
PARAGRAPH, PARAGRAPH_END = PARAGRAPHS = ("<paragraph>", "</paragraph>")
ALL: tuple[str, ...] = RETRIEVAL + RELEVANCE + RATIONALITY + UTILITY + PARAGRAPHS
"""All tokens in the order in which a vocabulary gets them."""

SEPARATOR = "; "
INVERSE = "^"
RetrievedKind = Literal["relation", "entity"]

_TOKENS = re.compile("(" + "|".join(map(re.escape, ALL)) + ")")
_SPACES = re.compile(r"(?<=;) |^ +| +$")


@dataclass(frozen=True, slots=True)
class Retrieved:
    """A relation or an entity on a path and what is said of it; ``None`` is what is not there (yet).

    ``name`` is a relation as `write_relation` gives it, or an entity's name (its id where it has none).
    ``rationality`` is an entity's: of the path up to it.
    """

    kind: RetrievedKind
    name: str | None = None
    relevance: str | None = None
    rationality: str | None = None


@dataclass(frozen=True, slots=True)
class ReflectionPath:
    """What a message says: the steps, the answers (``None`` before ``[No Retrieval]``) and their utility, 1 to 5."""

    steps: tuple[Retrieved, ...] = ()
    answers: tuple[str, ...] | None = None
    utility: int | None = None


@dataclass(frozen=True, slots=True)
class ParsedPath:
    """A path as read, and what of the text did not fit (one sentence each; none in a well-formed text)."""

    path: ReflectionPath
    problems: tuple[str, ...] = ()


def token_ids(vocabulary: Mapping[str, int], where: str) -> dict[str, int]:
    """The id of each reflection token in a tokenizer's vocabulary, in their order.

    Raises `UserError`, naming ``where`` (a checkpoint, say), when some are missing or their ids are in another order:
    such a model was trained on other tokens, and what it says of a path would be read wrongly.
    """
    missing = [token for token in ALL if token not in vocabulary]
    if missing:
        raise UserError(
            f"{where}: {len(missing)} of the {len(ALL)} reflection tokens are missing from its tokenizer, the first is "
            f"{missing[0]}: it is no ArG checkpoint; train one with recipes/arg.py"
        )
    ids = {token: vocabulary[token] for token in ALL}
    for before, token in pairwise(ALL):
        if ids[before] > ids[token]:
            raise UserError(
                f"{where}: its tokenizer has the reflection tokens in another order ({token} stands before {before}), "
                "so it was made by another version or another program: train again with recipes/arg.py"
            )
    return ids


def messages(question: Question, topic: Entity, prompt: Prompt) -> list[dict[str, str]]:
    """The conversation before the path: the question and the one topic entity that the path starts from."""
    return prompt.messages(replace(question, topic_entities=(topic,)))


def write_name(name: str) -> str:
    r"""A name as it stands in a paragraph and in an answer, where ``; `` parts the names; `read_name` inverts it.

    >>> print(write_name("[Unrelevant]"), write_name("Me; Myself"), write_name("a;b"))
    \u005bUnrelevant] Me;\u0020Myself a;b
    """
    return _SPACES.sub(lambda match: "\\u0020" * len(match[0]), escape_name(name))


def read_name(text: str) -> str:
    """The name that was written; spaces around it are the model's."""
    return unescape_name(text.strip(" "))


def write_relation(relation: str, inverse: bool = False) -> str:
    """A relation and its direction as a step's ``name``.

    >>> write_relation("film.film.starring"), write_relation("film.film.starring", inverse=True)
    ('film.film.starring', '^film.film.starring')
    """
    return INVERSE + relation if inverse else relation


def read_relation(name: str) -> tuple[str, bool]:
    """The relation and whether it is walked from tail to head, of a step's ``name``."""
    return name.removeprefix(INVERSE), name.startswith(INVERSE)


def paragraph(kind: RetrievedKind, name: str) -> str:
    """The token of the retrieval and what was retrieved.

    >>> paragraph("entity", "Paris")
    '[Entity Retrieval]<paragraph>Paris</paragraph>'
    """
    return (RETRIEVE_RELATION if kind == "relation" else RETRIEVE_ENTITY) + enclosed(name)


def enclosed(name: str) -> str:
    """What was retrieved, without the token that asked for it."""
    return PARAGRAPH + write_name(name) + PARAGRAPH_END


def answer(names: Iterable[str], utility: int | None = None) -> str:
    """The end of a path; without a utility it stops where that is to be judged.

    >>> answer(["Miami Arena", "BB&T Center"], 4)
    '[No Retrieval]Miami Arena; BB&T Center[Utility:4]'
    """
    return NO_RETRIEVAL + SEPARATOR.join(map(write_name, names)) + ("" if utility is None else UTILITY[utility - 1])


def render(path: ReflectionPath) -> str:
    """The message's text; a path without answers is a prefix that a model goes on from. `parse` inverts it."""
    parts = []
    for step in path.steps:
        if step.name is None:
            parts.append(RETRIEVE_RELATION if step.kind == "relation" else RETRIEVE_ENTITY)
        else:
            parts += [paragraph(step.kind, step.name), step.relevance or "", step.rationality or ""]
    if path.answers is not None:
        parts.append(answer(path.answers, path.utility))
    return "".join(parts)


def words(text: str) -> list[str]:
    """What of a text is no token, in pieces."""
    return [piece for piece in _TOKENS.split(text)[::2] if piece]


def parse(text: str) -> ParsedPath:
    """Read a model's text; never raises. What follows the utility, and what does not fit, is a problem and left out."""
    reader = _Reader()
    for place, piece in enumerate(_TOKENS.split(text)):
        if place % 2:
            reader.token(piece)
        else:
            reader.text(piece)
    return reader.result()


class _Reader:
    """Takes tokens and the texts between them, in turn."""

    def __init__(self) -> None:
        self.steps: list[Retrieved] = []
        self.answers: tuple[str, ...] | None = None
        self.utility: int | None = None
        self.inside: Literal["", "paragraph", "answer"] = ""
        self.problems: list[str] = []

    def text(self, text: str) -> None:
        if self.inside == "paragraph":
            self._amend(name=read_name(text))
        elif self.inside == "answer":
            names = tuple(name for part in text.split(SEPARATOR) if (name := read_name(part)))
            self.answers = (self.answers or ()) + names
        elif text.strip():
            self.problems.append(f"text outside of a paragraph: {text.strip()[:60]!r}")

    def token(self, token: str) -> None:
        last = self.steps[-1] if self.steps else None
        paragraph_ended = last is not None and last.name is not None and self.inside == ""
        if self.utility is not None:
            self.problems.append(f"{token} after the utility")
        elif token == NO_RETRIEVAL and self.inside == "":
            self.inside, self.answers = "answer", ()
        elif token in RETRIEVAL and self.inside == "":
            self.steps.append(Retrieved("relation" if token == RETRIEVE_RELATION else "entity"))
        elif token == PARAGRAPH and last is not None and last.name is None and self.inside == "":
            self.inside = "paragraph"
        elif token == PARAGRAPH_END and self.inside == "paragraph":
            self.inside = ""
        elif token in RELEVANCE and paragraph_ended and last is not None and last.relevance is None:
            self._amend(relevance=token)
        elif token in RATIONALITY and paragraph_ended and last is not None and self._can_be_reasonable(last):
            self._amend(rationality=token)
        elif token in UTILITY and self.inside == "answer":
            self.inside, self.utility = "", UTILITY.index(token) + 1
        else:
            self.problems.append(f"{token} does not fit where it stands")

    def result(self) -> ParsedPath:
        if self.inside == "paragraph":
            self.problems.append("the last paragraph does not end")
        return ParsedPath(ReflectionPath(tuple(self.steps), self.answers, self.utility), tuple(self.problems))

    def _amend(self, **values: str) -> None:
        self.steps[-1] = replace(self.steps[-1], **values)  # type: ignore[arg-type]

    @staticmethod
    def _can_be_reasonable(step: Retrieved) -> bool:
        return step.kind == "entity" and step.relevance is not None and step.rationality is None
