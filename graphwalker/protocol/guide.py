"""A regular expression of well-formed turns, for engines that can hold a model to one while it decodes.

A well-formed turn is what `render_turn` writes: a thought, then one query or one answer, and nothing else. `parse_turn`
reads each without a problem. What the parser forgives (an action without a thought, text around the tags, other spaces,
``<|``) is left out, and so are two spellings in a list: a raw quote inside a name before a comma or a bracket (which
can be escaped), and an opening bracket in a relation.

Only what every engine's dialect has is used: groups, classes, alternatives, ``*``, ``+`` and ``?``; no look-around.
"""

from functools import cache

_BREAKS = r"\n\r"
_THOUGHT = ("think>", "/think>", "|")  # the last opens control tokens, which no turn holds


@cache
def turn_regex() -> str:
    """A whole turn, without its end-of-turn token.

    >>> import re
    >>> for tool in ("get_relations", "get_cities"):
    ...     print(bool(re.fullmatch(turn_regex(), f'<think>Start.</think><kg-query>{tool}("France")</kg-query>')))
    True
    False
    """
    text = _Text(_THOUGHT, "")
    return rf"<think>(?:[^<]|{text.unit})*{text.begun}*</think>\n?(?:{_query()}|{_answer()})"


def _query() -> str:
    words = (*_THOUGHT, "/kg-query>")
    call = rf'(?:get_relations\("{_name(words)}"\)|get_triples\("{_name(words)}", \[{_names(words, _OPENING)}\]\))'
    return f"<kg-query>{call}</kg-query>"


def _answer() -> str:
    return rf"<answer>\[(?:{_names((*_THOUGHT, '/answer>'))})?\]</answer>"


_OPENING = r"\["


def _name(words: tuple[str, ...]) -> str:
    """What stands between the quotes of an entity, raw quotes included.

    A backslash takes the next character with it, so that the closing quote is not an escaped one.
    """
    text = _Text(words, rf'"\\{_BREAKS}')
    return rf'(?:(?:{text.plain}|{text.escape}|{text.begun}*")+{text.begun}*|{text.begun}+)'


def _names(words: tuple[str, ...], banned: str = "") -> str:
    """Names in quotes, with a comma and a space between them; ``banned`` goes into a character class.

    After a raw quote inside a name neither a comma nor a bracket may follow, spaces aside. So either the whole list is
    JSON, or it is not JSON from its first raw quote on, and then the parser goes by the quotes that the commas show.
    """
    text = _Text(words, rf'"\\{_BREAKS}{banned}')
    quotes = rf'{text.begun}*"(?: |\t|{text.begun}*")*'
    after = rf'(?:[^<"\\,\] \t{_BREAKS}{banned}]|{text.unit}|{text.escape})'
    name = rf'"(?:{text.plain}|{text.escape}|{quotes}{after})*(?:{quotes})?{text.begun}*"'
    return f"{name}(?:, {name})*"


class _Text:
    """Text that holds ``<`` but after it none of some words; ``banned`` (in a character class) is what else it lacks.

    ``begun`` is ``<`` and the beginning of a word: what follows it must be ``<`` or banned. ``unit`` ends in a
    character that goes on with no word; ``plain`` is that or a character other than ``<``; ``escape`` is a backslash
    and the character it escapes.
    """

    def __init__(self, words: tuple[str, ...], banned: str):
        starts = sorted({word[:i] for word in words for i in range(len(word))})  # the empty one first
        self.begun = f"(?:<(?:{'|'.join(starts[1:])})?)"
        ends = []
        for start in starts:
            following = sorted({word[len(start)] for word in words if word.startswith(start)})
            letters = "".join(rf"\{c}" if c == "-" else c for c in following)
            ends.append(f"{start}[^<{letters}{banned}]")
        self.unit = f"{self.begun}*<(?:{'|'.join(ends)})"
        self.plain = f"[^<{banned}]|{self.unit}"
        self.escape = rf"{self.begun}*\\[^<{banned.replace(_QUOTE, '')}]"


_QUOTE = r'"\\'
