"""Terms as strings: an entity is its id, a literal is in N-Triples syntax (`"Rome"@en`).

Literals have exactly one spelling here, so equal terms are equal strings: only `\\`, `"`, newline and carriage
return are escaped, and `xsd:string` is left out.
"""

import re

XSD = "http://www.w3.org/2001/XMLSchema#"
_ESCAPES = str.maketrans({"\\": "\\\\", '"': '\\"', "\n": "\\n", "\r": "\\r"})
_UNESCAPE = {"t": "\t", "b": "\b", "n": "\n", "r": "\r", "f": "\f", '"': '"', "'": "'", "\\": "\\"}
_NOT_IN_ID = re.compile(r'[\x00-\x20<>"{}|^`\\]')  # what an IRI cannot hold
_ESCAPE = re.compile(r"\\(u[0-9A-Fa-f]{4}|U[0-9A-Fa-f]{8}|.)", re.S)
_LITERAL = re.compile(r'"((?:[^"\\]|\\.)*)"(?:@([A-Za-z0-9-]+)|\^\^<([^<>"{}|^`\\\x00-\x20]*)>)?', re.S)


def literal(value: str, lang: str = "", datatype: str = "") -> str:
    """The term of a literal.

    >>> literal('a "b"', lang="en")
    '"a \\\\"b\\\\""@en'
    """
    text = '"' + value.translate(_ESCAPES) + '"'
    if lang:
        return f"{text}@{lang.lower()}"
    return f"{text}^^<{datatype}>" if datatype and datatype != XSD + "string" else text


def parse_literal(term: str) -> tuple[str, str, str]:
    """Value, language and datatype IRI of a literal term. Raises `ValueError` when it is not one.

    >>> parse_literal('"Rome"@en')
    ('Rome', 'en', '')
    """
    match = _LITERAL.fullmatch(term)
    if match is None:
        raise ValueError(f"not a literal: {term!r}")
    value, lang, datatype = match.groups("")
    return _unescape(value), lang.lower(), "" if datatype == XSD + "string" else datatype


def literal_value(term: str) -> str:
    """A literal's text; fast for the common case of one without escapes."""
    end = term.rindex('"')
    value = term[1:end]
    return _unescape(value) if "\\" in value else value


def literal_lang(term: str) -> str | None:
    """The language of a literal term: `""` for a plain string, `None` for another datatype."""
    suffix = term[term.rindex('"') + 1 :]
    return suffix[1:] if suffix.startswith("@") else None if suffix else ""


def check_id(term: str) -> str:
    """An id as it is. Raises `ValueError` when it is empty or holds what no IRI can."""
    if not term or _NOT_IN_ID.search(term):
        raise ValueError(f"not an id: {term!r}" if term else "an empty id")
    return term


def _unescape(text: str) -> str:
    if "\\" not in text:
        return text

    def one(match: re.Match) -> str:
        code = match[1]
        if code[0] in "uU" and len(code) > 1:
            return chr(int(code[1:], 16))
        if code not in _UNESCAPE:
            raise ValueError(f"unknown escape \\{code}")
        return _UNESCAPE[code]

    return _ESCAPE.sub(one, text)
