"""One form for all spellings of a name, number or date, and never one form for two different things.

Two names count as the same when their forms are equal. What is dropped is only what carries no meaning: the form of
Unicode, case, a leading English article, separators and spaces. A symbol that tells names apart (``C++``, ``C#``, the
blood group ``A-``) stays, since a form that loses it would let a part of a name pass for the whole.
"""

import re
import unicodedata
from collections.abc import Callable
from functools import lru_cache

from graphwalker.protocol.escape import unescape_name

_LONGEST = 2000  # characters; sorting combining marks, as NFKC must, takes time that grows with their square
_LONGEST_CACHED = 256  # characters; an answer may be any text a model can write
_APOSTROPHES = frozenset("'’‘ʼ‛`´ʹ′")
_MEANINGFUL = frozenset("#%&@.-")

_ARTICLE = re.compile(r"(?:the|an(?=\s+[^\W\d_bcdfgjklmnpqrstvwxyz]\w)|a(?=\s+[^\W\d_aeio]\w))\s+(?=\w)")
_INITIALS = re.compile(r"(?<![^\W_])(?:[^\W\d_]\.)+(?![\w])")
_DOT = re.compile(r"(?<!\d)\.|\.(?!\d)")
_HYPHEN = re.compile(r"(?<!\S)-+(?![-\d])|(?<=\S)-+(?=\w)|(?<=-)-+")  # all but a sign before a number or at the end

_NUMBER = re.compile(r"([+-]?)(0|[1-9]\d{0,2}(?:,\d{3})+|[1-9]\d*)(?:\.(\d+))?(?:e([+-]?\d{1,4}))?", re.ASCII)
_ZONE = r"(?:z|[+-]\d\d:\d\d)?"  # with its colon: 1939-1945 is no year in a time zone
_ISO_DATE = re.compile(
    rf"(-?\d{{4}})(?:-(\d\d)(?:-(\d\d)(?:[t ](\d\d:\d\d(?::\d\d(?:\.\d+)?)?))?)?)?({_ZONE})", re.ASCII
)
_MONTHS = (
    *("january", "february", "march", "april", "may", "june"),
    *("july", "august", "september", "october", "november", "december"),
)
_MONTH = "|".join(f"{name[:3]}(?:{name[3:]})?" if name[3:] else name for name in _MONTHS)
_DAY_FIRST = re.compile(rf"(?:(\d{{1,2}})(?:st|nd|rd|th)?(?: of)? )?({_MONTH})\.?,? (\d{{4}})", re.ASCII)
_MONTH_FIRST = re.compile(rf"({_MONTH})\.? (\d{{1,2}})(?:st|nd|rd|th)?,? (\d{{4}})", re.ASCII)


def _visible(char: str) -> str:
    """Spaces and control characters as a space, dashes as ``-``, nothing for what does not show."""
    if char.isascii():
        return char if char.isprintable() else " "
    category = unicodedata.category(char)
    if category == "Cf" or "\ufe00" <= char <= "\ufe0f":  # zero-width and direction marks, variation selectors
        return ""
    if category == "Pd" or char == "\u2212":
        return "-"
    return " " if category in ("Cc", "Zs", "Zl", "Zp") else char


def _separator(char: str) -> str:
    if char in _APOSTROPHES:
        return ""
    if char in _MEANINGFUL or not unicodedata.category(char).startswith("P"):
        return char
    return " "


class _Table(dict[int, str]):
    """A table for ``str.translate`` that asks about each character once."""

    def __init__(self, replace: Callable[[str], str]) -> None:
        self._replace = replace

    def __missing__(self, code: int) -> str:
        return self.setdefault(code, self._replace(chr(code)))


_VISIBLE, _SEPARATED = _Table(_visible), _Table(_separator)


def normalise(name: str) -> str:
    """The form in which names are compared; empty only for a name of nothing but spaces.

    Numbers compare by value (``1,000`` and ``1e3``; not ``007``, which is a name), dates by value and precision
    (``May 1, 1999`` and ``1999-05-01``; not ``1999``). A name that consists of punctuation keeps it. One of more than
    2,000 characters stays as it is, but for spaces around it: text that a model ran on with, not a name.

    >>> normalise("  The Busch\\u00a0STADIUM. "), normalise("Jean-Luc O’Neill"), normalise("U.S.")
    ('busch stadium', 'jean luc oneill', 'us')
    >>> normalise("1,000.50"), normalise("May 1, 1999"), normalise("1999-05-01T00:00:00Z")
    ('1000.5', '1999-05-01', '1999-05-01')
    >>> normalise("C"), normalise("C++"), normalise("A-"), normalise("Hepatitis A"), normalise("!!!")
    ('c', 'c++', 'a-', 'hepatitis a', '!!!')
    """
    return _cached(name) if len(name) <= _LONGEST_CACHED else _normalise(name)


def forms(name: str) -> frozenset[str]:
    """The forms of a name as an agent writes or reads it: parsed already, or still with the protocol's escapes.

    >>> sorted(forms("Paris")), sorted(forms("\\\\u003canswer>"))
    (['paris'], ['<answer>', 'u003canswer>'])
    """
    form = normalise(name)
    return frozenset((form, normalise(unescape_name(name))) if "\\" in name else (form,)) - {""}


def _normalise(name: str) -> str:
    if len(name) > _LONGEST:
        return name.strip()
    text = _unraised(name)
    text = unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", text).casefold())
    text = " ".join(text.translate(_VISIBLE).split())
    if text.replace(" ", "").isalpha():  # most names: no date, number or separator
        return _words(text, text)
    return _date(text) or _number(text) or _words(text, _separated(text)) or text


_cached = lru_cache(maxsize=1 << 16)(_normalise)


def _unraised(name: str) -> str:
    """A mark between a digit and a raised, lowered or circled one: NFKC would make one number of both (10² and 102)."""
    if name.isascii():
        return name
    pairs = zip(" " + name, name, strict=False)
    return "".join(f"^{char}" if last.isdigit() and _is_raised(char) else char for last, char in pairs)


def _is_raised(char: str) -> bool:
    return char.isdigit() and not char.isdecimal()


def _words(text: str, plain: str) -> str:
    """``plain``, the text without separators, also without a leading article; "" when nothing is left."""
    if article := _ARTICLE.match(text):
        rest = _separated(text[article.end() :])
        if any(char.isalpha() for char in rest) and rest not in ("the", "a", "an"):  # "The 1975" is a band, not a year
            return rest
    return plain if any(char.isalnum() for char in plain) else ""


def _separated(text: str) -> str:
    text = text.translate(_SEPARATED)
    text = _INITIALS.sub(lambda match: match[0].replace(".", ""), text)
    text = _HYPHEN.sub(" ", _DOT.sub(" ", text))
    return " ".join(text.split())


def _number(text: str) -> str:
    """The value in one spelling, "" for what is no number. Digits only, so that no value is rounded."""
    match = _NUMBER.fullmatch(text)
    if match is None:
        return ""
    sign, whole, fraction, exponent = match.groups(default="")
    digits = whole.replace(",", "") + fraction
    power = int(exponent or 0) - len(fraction)
    stripped = digits.rstrip("0")
    power += len(digits) - len(stripped)
    digits = stripped.lstrip("0")
    if not digits:
        return "0"
    minus = "-" if sign == "-" else ""
    if 0 <= power <= 30:
        return minus + digits + "0" * power
    if -30 <= power < 0:
        digits = digits.rjust(1 - power, "0")
        return f"{minus}{digits[:power]}.{digits[power:]}"
    return f"{minus}{digits}e{power}"


def _date(text: str) -> str:
    """``YYYY``, ``YYYY-MM`` or ``YYYY-MM-DD`` (with a time only where it is not midnight); "" for what is no date."""
    if match := _ISO_DATE.fullmatch(text):
        year, month, day, time, zone = match.groups(default="")
        if not month and not zone:
            return ""  # a bare year is a number
    elif match := _DAY_FIRST.fullmatch(text):
        day, month, year = match.groups(default="")
        time = zone = ""
    elif match := _MONTH_FIRST.fullmatch(text):
        month, day, year = match.groups()
        time = zone = ""
    else:
        return ""
    number = int(month) if month.isdigit() else _month_number(month)
    if (month and not 1 <= number <= 12) or (day and not 1 <= int(day) <= 31):
        return ""
    if not month:
        return str(int(year))  # 1958-08:00, as Virtuoso prints an xsd:gYear
    date = f"{year}-{number:02d}" + (f"-{int(day):02d}" if day else "")
    return date + (f"t{time}{zone}" if time.strip("0:.") else "")


def _month_number(name: str) -> int:
    return next((i for i, month in enumerate(_MONTHS, 1) if name and month.startswith(name[:3])), 0)
