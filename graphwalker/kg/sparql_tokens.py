"""SPARQL text as tokens, and tokens as text in one spelling.

The spelling has no comments, no `\\u` escapes, no prefixes and one kind of quotes, so every engine reads the same query
out of it, whatever the writer hid. Terminals are those of SPARQL 1.1 (https://www.w3.org/TR/sparql11-query/#grammar).
"""

import re
from collections.abc import Iterable
from typing import NamedTuple

from graphwalker.errors import QueryMalformed
from graphwalker.kg.terms import literal, parse_literal

_BASE = (
    "A-Za-z\u00c0-\u00d6\u00d8-\u00f6\u00f8-\u02ff\u0370-\u037d\u037f-\u1fff\u200c\u200d\u2070-\u218f\u2c00-\u2fef"
    "\u3001-\ud7ff\uf900-\ufdcf\ufdf0-\ufffd\U00010000-\U000effff"
)
_NAME = _BASE + "_0-9\u00b7\u0300-\u036f\u203f\u2040"  # what may follow the first character of a name
_LOCAL = rf"(?:[{_NAME}:-]|%[0-9A-Fa-f]{{2}}|\\[_~.!$&'()*+,;=/?#@%-])"
# Bounded, or each part of a long run of words and signs would be tried as the beginning of one long prefix.
_PREFIX = rf"(?:[{_BASE}](?:[{_NAME}.-]{{0,60}}[{_NAME}-])?)?"
# `?x<3&&?y>1` compares, whatever section 19.8 of SPARQL 1.1 says of the longest token: no IRI begins like that.
_COMPARED = rf"(?:[?$][{_NAME}]+|[+-]?[0-9.]+)(?:&&|[,)])"
_TOKEN = re.compile(
    rf"""
    (?P<SPACE>   \s+ | \#[^\r\n]* )
  | (?P<IRI>     <(?!{_COMPARED})[^\x00-\x20<>"{{}}|^`\\]*> )
  | (?P<STRING>  \"\"\"(?:(?:\"|\"\")?(?:[^"\\]|\\.))*\"\"\" | '''(?:(?:'|'')?(?:[^'\\]|\\.))*'''
               | "(?:[^"\\\r\n]|\\.)*" | '(?:[^'\\\r\n]|\\.)*' )
  | (?P<VAR>     [?$][{_NAME}]+ )
  | (?P<BLANK>   _:[{_NAME}](?:[{_NAME}.-]*[{_NAME}-])? )
  | (?P<PNAME>   {_PREFIX}:(?:(?!-){_LOCAL}(?:(?:{_LOCAL}|\.)*{_LOCAL})?)? )
  | (?P<LANG>    @[A-Za-z]+(?:-[A-Za-z0-9]+)* )
  | (?P<NUMBER>  [+-]?(?:[0-9]+\.[0-9]*[eE][+-]?[0-9]+|\.?[0-9]+[eE][+-]?[0-9]+|[0-9]*\.[0-9]+|[0-9]+) )
  | (?P<DOTTED>  [a-z_][a-z0-9_]*(?:\.[a-z0-9_]+)+ )
  | (?P<WORD>    [{_BASE}_][{_NAME}]* )
  | (?P<PUNCT>   \^\^ | && | \|\| | != | <= | >= | [-+*/|^?!=<>(){{}}\[\].;,] )
    """,
    re.X | re.S,
)
_ESCAPE = re.compile(r"\\(?:u([0-9A-Fa-f]{4})|U([0-9A-Fa-f]{8})|(.?))", re.S)
_STRING_ESCAPE = re.compile(r"\\(.)", re.S)
_BREAKS = str.maketrans({"\n": "\\n", "\r": "\\r", '"': '\\"'})


class Token(NamedTuple):
    """A terminal. `kind` is a group of the pattern above; `text` of a STRING is its value, of an IRI what it encloses,
    of a VAR its name. A DOTTED is no terminal of SPARQL: `a.b.c`, a name without its prefix, or words run together.
    """

    kind: str
    text: str

    def word(self) -> str:
        """A bare word in upper case, `""` for any other token; only ASCII, or `ſELECT` would be one."""
        return self.text.upper() if self.kind == "WORD" and self.text.isascii() else ""

    def written(self) -> str:
        if self.kind == "STRING":
            return literal(self.text)
        return f"<{self.text}>" if self.kind == "IRI" else f"?{self.text}" if self.kind == "VAR" else self.text


def tokenize(text: str) -> list[Token]:
    """The tokens of a query, without spaces and comments.

    Raises `QueryRefused` where no token begins or an escape is broken, with what stands there.
    """
    text = _expand_escapes(text)
    found: list[Token] = []
    at = 0
    while at < len(text):
        match = _TOKEN.match(text, at)
        if match is None:
            raise QueryMalformed(f"not SPARQL at {_excerpt(text[at:])}")
        kind, word, at = str(match.lastgroup), match[0], match.end()
        if kind == "IRI" or kind == "VAR":
            word = word[1:-1] if kind == "IRI" else word[1:]
        elif kind == "STRING":
            word = _string_value(word)
        if kind != "SPACE":
            found.append(Token(kind, word))
    return found


def one_line(text: str) -> str:
    """A query with every run of spaces and line breaks as one space."""
    return " ".join(text.split())


def without_comments(text: str) -> str:
    """A query with a space in the place of each comment, else to the letter; what is not SPARQL stays as it is.

    >>> without_comments("SELECT ?x # who is it\\nWHERE { ?x <http://a#b> '#1' }")
    "SELECT ?x  \\nWHERE { ?x <http://a#b> '#1' }"
    """
    parts: list[str] = []
    at = 0
    while at < len(text):
        match = _TOKEN.match(text, at)
        if match is None:
            return text
        parts.append(" " if match[0].startswith("#") else match[0])
        at = match.end()
    return "".join(parts)


def spell(tokens: Iterable[Token]) -> str:
    """The one text of a list of tokens; `tokenize` gives the same list back."""
    parts: list[str] = []
    before = ""
    for token in tokens:
        # pyoxigraph 0.5.13 knows CONCAT and COALESCE only with their parenthesis close by.
        close = token == ("PUNCT", "(") and before in ("WORD", "IRI")
        parts += ["" if close or not parts else " ", token.written()]
        before = token.kind
    return "".join(parts)


def _excerpt(text: str) -> str:
    line = text.split("\n", 1)[0].strip()
    return repr(line[:30]) if line else "the end"


def _expand_escapes(text: str) -> str:
    """`\\uXXXX` and `\\UXXXXXXXX` as their characters, which may stand anywhere (section 19.2 of SPARQL 1.1)."""

    def one(match: re.Match) -> str:
        code = match[1] or match[2]
        if code is None:
            if match[3] in ("u", "U"):
                raise QueryMalformed(f"broken escape {text[match.start() : match.start() + 10]!r}")
            return match[0]
        if int(code, 16) > 0x10FFFF:
            raise QueryMalformed(f"no character has the number of {match[0]!r}")
        character = chr(int(code, 16))
        # In a string these would end it or begin another escape; elsewhere they have no place.
        return {"\n": "\\n", "\r": "\\r"}.get(character, "\\" + character if character in "\\\"'" else character)

    expanded = _ESCAPE.sub(one, text)
    if any(character == "\0" or "\ud800" <= character <= "\udfff" for character in expanded):
        raise QueryMalformed("a NUL or half of a surrogate pair is no text")
    return expanded


def _string_value(quoted: str) -> str:
    """The value of a string in any of the four kinds of quotes."""
    inner = quoted[3:-3] if quoted[:3] in ('"""', "'''") else quoted[1:-1]
    if "\\" not in inner:
        return inner
    escaped = _STRING_ESCAPE.sub(lambda m: m[0] if m[1] != "'" else "'", inner)
    # What is left of quotes and breaks is made part of one N-Triples literal, which has the same escapes.
    escaped = "".join(
        part if i % 2 else part.translate(_BREAKS) for i, part in enumerate(re.split(r"(\\.)", escaped, flags=re.S))
    )
    try:
        return parse_literal(f'"{escaped}"')[0]
    except ValueError as error:
        raise QueryMalformed(f"in the string {quoted[:40]!r}: {error}") from error
