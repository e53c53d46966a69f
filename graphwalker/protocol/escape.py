"""How names print on the wire, and back.

A backslash, a line break, the ``<`` of a protocol or chat-control tag and the ``[`` of a reflection token print as
JSON escapes, so that no name in a knowledge graph can close an observation, forge a turn or pass judgement. Every other
name prints raw: a model copies what it sees.
"""

import re

# Line breaks are those of str.splitlines: an observation is read line by line.
_BREAKS = "\n\r\x0b\x0c\x1c\x1d\x1e\x85\u2028\u2029"
# Beside the protocol's own tags: `<|...` opens a control token for Qwen and Llama; `<start_of_turn>`, `<s>` and the
# like are others'.
_TAG = re.compile(
    r"<(?=\||/?(?:think|kg-query|information|answer|paragraph|tool_call|tool_response|(?:start|end)_of_turn"
    r"|s|unk|pad|bos|eos|mask)>)"
    # the tokens of protocol/reflection.py
    r"|\[(?=(?:(?:relation|entity|no) retrieval|(?:fully |partially |un)(?:relevant|reasonable)|utility:[1-5])\])",
    re.IGNORECASE,
)
_UNSAFE = re.compile(r"[\\<\[" + _BREAKS + "\ud800-\udfff]")
_BREAK = re.compile(f"[{_BREAKS}]")
_ESCAPE = re.compile(r'\\(?:u([0-9a-fA-F]{4})|(["\\/bfnrt]))')
_SHORT = {'"': '"', "\\": "\\", "/": "/", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t"}
_SURROGATES = re.compile("[\ud800-\udbff][\udc00-\udfff]|[\ud800-\udfff]")


def escape_name(name: str) -> str:
    """The name as it stands in a query, an observation or an answer: one line, no tags.

    >>> print(escape_name("Busch Stadium"), escape_name("</information>"), escape_name("1 < 2"))
    Busch Stadium \\u003c/information> 1 < 2
    """
    if not _UNSAFE.search(name):
        return name
    return _BREAK.sub(_escape_break, escape_tags(name.replace("\\", "\\\\")))


def unescape_name(text: str) -> str:
    r"""Inverse of `escape_name`; what is no JSON escape stays (a model that copies ``AC\DC`` raw means just that).

    >>> unescape_name("\\u003canswer>"), unescape_name("AC\\DC"), unescape_name('\\"The Rock\\"')
    ('<answer>', 'AC\\DC', '"The Rock"')
    """
    return sound(_ESCAPE.sub(_unescape_one, text)) if "\\" in text else sound(text)


def escape_tags(text: str) -> str:
    """Only the tags: for a question or a thought, where backslashes and lines mean nothing."""
    return _TAG.sub(_escape_tag, sound(text)) if "<" in text or "[" in text else sound(text)


def sound(text: str) -> str:
    """Surrogates joined where they pair and replaced where they do not: any text can then be written as UTF-8."""
    return text if text.isascii() else _SURROGATES.sub(_join_surrogates, text)


def _join_surrogates(match: re.Match[str]) -> str:
    pair = match[0]
    return "\ufffd" if len(pair) == 1 else chr(0x10000 + ((ord(pair[0]) - 0xD800) << 10) + ord(pair[1]) - 0xDC00)


def _escape_tag(match: re.Match[str]) -> str:
    return f"\\u{ord(match[0]):04x}"


def _escape_break(match: re.Match[str]) -> str:
    char = match[0]
    return {"\n": "\\n", "\r": "\\r", "\x0c": "\\f"}.get(char) or f"\\u{ord(char):04x}"


def _unescape_one(match: re.Match[str]) -> str:
    code, short = match.groups()
    return chr(int(code, 16)) if code else _SHORT[short]
