"""Interactive-KBQA's text protocol (Xiong et al. 2024; MCTS-KBQA, section 3.1): its turns and calls, both ways.

A turn is ``Thought: …`` and, on a line of its own, ``Action: Tool(…)``; the environment answers ``Observation: …``.
Where a turn says more than that, its first action counts. Nothing here raises on any text, and all of it is linear in
it. Calls are read as they are meant: an apostrophe that a strict reader would take for the end of a string does not
lose the call.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from graphwalker.protocol.escape import escape_name, escape_tags, sound, unescape_name
from graphwalker.protocol.parse import ParsedTurn

PROTOCOL = "interactive"
"""What ``Trajectory.extra["protocol"]`` says of these turns."""
OBSERVATION = "Observation: "
SEARCH_NODES = "SearchNodes"
SEARCH_PATTERNS = "SearchGraphPatterns"
EXECUTE = "ExecuteSPARQL"
SEARCH_TYPES = "SearchTypes"
DONE = "Done"
TOOLS: Mapping[str, tuple[str, ...]] = {
    SEARCH_NODES: ("name",),
    SEARCH_PATTERNS: ("sparql", "semantic"),
    EXECUTE: ("sparql",),
    SEARCH_TYPES: ("name",),
}
"""Each tool's arguments, the first of which it must be given."""
FORMS: Mapping[str, str] = {
    SEARCH_NODES: 'SearchNodes("name")',
    SEARCH_PATTERNS: "SearchGraphPatterns('SELECT ?e WHERE { … }', semantic=\"meaning\")",
    EXECUTE: "ExecuteSPARQL('SELECT DISTINCT ?x WHERE { … }')",
    SEARCH_TYPES: 'SearchTypes("name")',
    DONE: "Done",
}
NO_ACTION = "write your thought, then on a new line `Action: ` and one call."

_ECHO = 60  # characters of a model's own words that an error repeats
_LABEL = re.compile(r"^[ \t]*(Thought|Action|Observation|Q)[ \t]*:", re.MULTILINE)
_INLINE = re.compile(r"\bAction[ \t]*:")
_DONE = re.compile(r"Done\b")
_OPEN = re.compile(r"([A-Za-z_]\w*)\s*\(")
_CALL = re.compile(r"([A-Za-z_]\w*)\s*\((.*)\)", re.DOTALL)
_QUOTED = r"""'''(?:\\.|(?!''')[^\\])*'''|\"\"\"(?:\\.|(?!\"\"\")[^\\])*\"\"\"|'(?:\\.|[^'\\])*'|\"(?:\\.|[^\"\\])*\""""
_PIECE = re.compile(rf"({_QUOTED})|([()])|[^()'\"]+", re.DOTALL)
_ARGUMENT = re.compile(rf"\s*(?:([A-Za-z_]\w*)\s*=\s*)?({_QUOTED})\s*(,|$)", re.DOTALL)
_LAST_QUOTE = re.compile(r"[\"']\s*\)")
_BETWEEN = re.compile(r"([\"'])\s*,\s*(?:semantic\s*=\s*)?([\"'])")
_SINGLE = re.compile(r"\A\s*(?:sparql|query|name)\s*=\s*")
_PAIR = re.compile(r"\\(.)", re.DOTALL)
_DELIMITERS = ("'", '"', "'''", '"""')


@dataclass(frozen=True, slots=True)
class Call:
    """One call of a tool with the arguments it was given, by name; a query is as it was written, a name unescaped."""

    tool: str
    arguments: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class CallError:
    """Why a text is no call, said to the model."""

    message: str


def parse_turn(text: str) -> ParsedTurn:
    """Split a turn into its thought and its first action, whose raw text is `action` (``kind`` "answer" for Done).

    >>> parse_turn('Thought: Start.\\nAction: SearchNodes("France")')
    ParsedTurn(thought='Start.', kind='query', action='SearchNodes("France")', problem=None, extra_queries=0)
    """
    text = sound(text)
    labels = list(_LABEL.finditer(text))
    place = next((at for at, label in enumerate(labels) if label[1] == "Action"), None)
    if place is None:
        found = _INLINE.search(text)
        after = [label for label in labels if found and label.start() >= found.end()]
    else:
        found, after = labels[place], labels[place + 1 :]
    if found is None:
        return ParsedTurn(_thought(text), problem=f"your turn holds no action: {NO_ACTION}")
    thought = _thought(text[: found.start()])
    body = text[found.end() : after[0].start() if after else len(text)].strip()
    extra = sum(label[1] == "Action" for label in after)
    if _DONE.match(body):
        return ParsedTurn(thought, "answer", DONE, extra_queries=extra)
    if _OPEN.match(body) is None:
        return ParsedTurn(thought, problem=f"what follows `Action:` is no call: {NO_ACTION}")
    end = _end_of_call(body)
    if end is None:
        return ParsedTurn(thought, "query", body, f"your action is not closed: {NO_ACTION}", extra)
    return ParsedTurn(thought, "query", body[:end], extra_queries=extra)


def parse_call(action: str) -> Call | CallError:
    """Read one call; positional and named arguments, in any of Python's quotes.

    >>> parse_call("SearchGraphPatterns('SELECT ?e WHERE { ?e ns:a.b.c ?x }', semantic=\\"born in\\")").arguments
    {'sparql': 'SELECT ?e WHERE { ?e ns:a.b.c ?x }', 'semantic': 'born in'}
    """
    call = _CALL.fullmatch(sound(action).strip())
    if call is None:
        return CallError(f"this is not a call: {NO_ACTION}")
    tool, inner = call[1], call[2].strip()
    if tool not in TOOLS:
        return CallError(f"there is no tool named {_echo(tool)}.")
    given = _arguments(inner) or _arguments_as_meant(tool, inner)
    if not given:
        return CallError(f"the arguments cannot be read. Write {FORMS[tool]}.")
    parameters = TOOLS[tool]
    arguments: dict[str, str] = {}
    for place, (key, value) in enumerate(given):
        name = key or (parameters[place] if place < len(parameters) else "")
        name = parameters[0] if name == "query" else name
        if name not in parameters or name in arguments:
            return CallError(f"{tool} takes {' and '.join(parameters)}. Write {FORMS[tool]}.")
        arguments[name] = value if name == "sparql" else unescape_name(value)
    if parameters[0] not in arguments:
        return CallError(f"{tool} needs {parameters[0]}. Write {FORMS[tool]}.")
    return Call(tool, arguments)


def format_call(tool: str, *arguments: str) -> str:
    """A call as text, from the tool's arguments in their order; ``Done`` takes none.

    >>> print(format_call("SearchGraphPatterns", 'SELECT ?e WHERE { ?e ns:type.object.name "Rome"@en }', "mayor"))
    SearchGraphPatterns('SELECT ?e WHERE { ?e ns:type.object.name "Rome"@en }', semantic="mayor")
    """
    if tool == DONE:
        return DONE
    written: list[str] = []
    for name, value in zip(TOOLS[tool], arguments, strict=False):
        text = _quoted_query(value) if name == "sparql" else f'"{_quoted_name(value)}"'
        written.append(f"{name}={text}" if written else text)
    return f"{tool}({', '.join(written)})"


def render_turn(thought: str, action: str) -> str:
    """A turn; `action` is what `format_call` gave. The thought becomes one line, so that it cannot hold an action.

    >>> render_turn("Start.", 'SearchNodes("France")')
    'Thought: Start.\\nAction: SearchNodes("France")'
    """
    return f"Thought: {' '.join(escape_tags(thought).split())}\nAction: {action}"


def _thought(text: str) -> str:
    return text.strip().removeprefix("Thought:").strip()


def _echo(text: str) -> str:
    return escape_name(text if len(text) <= _ECHO else text[:_ECHO] + "…")


def _end_of_call(body: str) -> int | None:
    """The place after the parenthesis that closes the call; None where nothing closes it."""
    depth, at = 0, 0
    while at < len(body):
        piece = _PIECE.match(body, at)
        if piece is None:
            break  # a quote that nothing closes
        at = piece.end()
        if piece[2]:
            depth += 1 if piece[2] == "(" else -1
            if depth == 0:
                return at
    closes = list(_LAST_QUOTE.finditer(body))
    return closes[-1].end() if closes else None


def _arguments(inner: str) -> list[tuple[str, str]] | None:
    """(name or "", value) of each argument; None where this is no list of them."""
    found, at, more = [], 0, True
    while more or at < len(inner):
        argument = _ARGUMENT.match(inner, at)
        if argument is None:
            return None
        found.append((argument[1] or "", _unquoted(argument[2])))
        at, more = argument.end(), argument[3] == "," and argument.end() < len(inner)
    return found


def _arguments_as_meant(tool: str, inner: str) -> list[tuple[str, str]] | None:
    """The arguments where quotes stand inside quotes: what is between the first quote and the last one."""
    inner = _SINGLE.sub("", inner)
    quote = inner[:1]
    if quote not in ("'", '"'):
        return None
    if tool == SEARCH_PATTERNS:
        for between in reversed(list(_BETWEEN.finditer(inner))):
            if between[1] == quote and inner.endswith(between[2]) and between.end() < len(inner):
                return [("", inner[1 : between.start()]), ("semantic", inner[between.end() : -1])]
    return [("", inner[1:-1])] if len(inner) > 1 and inner.endswith(quote) else None


def _unquoted(text: str) -> str:
    """A quoted text's value: only its own quote is unescaped, all else means what it means in SPARQL or in a name."""
    if text[:3] in ("'''", '"""') and len(text) >= 6:
        return text[3:-3]
    quote = text[0]
    return _PAIR.sub(lambda pair: quote if pair[1] == quote else pair[0], text[1:-1])


def _quoted_query(query: str) -> str:
    """A query between quotes that it does not hold, so that it stands as it is."""
    for quote in _DELIMITERS:
        if quote not in query and not query.endswith(("\\", quote[0])) and not query.startswith(quote[0]):
            return f"{quote}{query}{quote}"
    return '"' + query.replace('"', '\\"') + '"'


def _quoted_name(name: str) -> str:
    return escape_name(name).replace('"', '\\"')
