"""The reader of N-Triples gives what pyoxigraph gives, on lines that it reads itself and on those that it hands on."""

import gzip

import pyoxigraph as ox
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from graphwalker.errors import FileFormatError
from graphwalker.kg.ntriples import _split, read_ntriples
from graphwalker.kg.rdf import read_rdf

PLAIN = [
    "<http://e.org/a> <http://e.org/p> <http://e.org/b> .",
    "<http://e.org/a>\t<https://e.org/x#p>\t<http://e.org/b?c=d&e>\t.",
    '<http://e.org/a> <http://e.org/p> "plain" .',
    '<http://e.org/a> <http://e.org/p> "日本 > <"@en-gb .',
    '<http://e.org/a> <http://e.org/p> "1"^^<http://www.w3.org/2001/XMLSchema#integer> .',
    '<http://e.org/a> <http://e.org/p> "" .',
    '<http://e.org/a> <http://e.org/p> "x"^^<http://www.w3.org/2001/XMLSchema#string> .',
    '<http://e.org/a> <http://e.org/p> "x"@x-klingon .',
]
OTHER = [
    "",
    "# a comment <http://e.org/a> <http://e.org/p> <http://e.org/b> .",
    "_:x <http://e.org/p> _:y .",
    "_:y <http://e.org/p> <http://e.org/b> . # comment",
    r'<http://e.org/a> <http://e.org/p> "es\"caped\n\u00e9" .',
    '<http://e.org/a>   <http://e.org/p> "tab\there"@EN.',
    "<urn:isbn:1> <http://e.org:80/p> <http://e.org/%20> .",
    "<http://é.org/a> <http://e.org/p> <http://e.org/b> .\r",
]
BROKEN = [
    "<http://e.org/a> <http://e.org/p> .",
    '<http://e.org/a> <http://e.org/p> "open .',
    '"x" <http://e.org/p> <http://e.org/b> .',
    "<http://e.org/a b> <http://e.org/p> <http://e.org/b> .",
    "<http://e.org:x/a> <http://e.org/p> <http://e.org/b> .",
    "<http://e.org/a> <http://e.org/p> <http://e.org/b#c#d> .",
    "<a> <http://e.org/p> <http://e.org/b> .",
    '<http://e.org/a> <http://e.org/p> "x"@toolongforalanguage .',
    '<http://e.org/a> <http://e.org/p> "x"^^<y> .',
    '<http://e.org/a> <http://e.org/p> "x"y" .',
    "<http://e.org/a> <http://e.org/p> <http://e.org/b> <http://e.org/g> .",
    "<http://e.org/a> <http://e.org/p> <http://e.org/b> . <http://e.org/a> <http://e.org/p> <http://e.org/b> .",
    "<http://e.org/a> _:p <http://e.org/b> .",
]


def both(file, chunk):
    """What each reader says: the triples, or the error."""

    def at_once():
        for columns in read_ntriples(file, chunk, {}):
            yield from zip(*(column.to_pylist() for column in columns), strict=True)

    found = []
    for triples in (read_rdf(file), at_once()):
        try:
            found.append(sorted(triples))
        except FileFormatError as error:
            found.append(str(error))
    return found


def canonical(triples):
    """Literals as pyoxigraph spells them: the build does that later."""
    if isinstance(triples, str):
        return triples
    text = "".join(f"{s} {p} {o} .\n" for s, p, o in triples)
    return sorted(str(quad) for quad in ox.parse(text, format=ox.RdfFormat.N_TRIPLES))


def test_plain_lines_are_read_at_once_and_others_are_not():
    text = "".join(line + "\n" for line in PLAIN + OTHER + BROKEN).encode()
    lines = _split(text)
    assert len(lines.tokens) == len(PLAIN) and len(lines.others) == len(OTHER + BROKEN)
    assert [text[row[0] : row[5]].decode() for row in lines.tokens.tolist()] == [line[:-2] for line in PLAIN]


@settings(max_examples=60, deadline=None)
@example(PLAIN + OTHER, 1 << 20, True)
@given(st.lists(st.sampled_from(PLAIN + OTHER), max_size=12), st.integers(1, 300), st.booleans())
def test_the_same_triples(tmp_path_factory, lines, chunk, newline):
    file = tmp_path_factory.mktemp("nt") / "a.nt.gz"
    file.write_bytes(gzip.compress(("\n".join(lines) + "\n" * newline).encode(), 1))
    one, other = map(canonical, both(file, chunk))
    assert one == other


@pytest.mark.parametrize("broken", BROKEN)
@pytest.mark.parametrize("chunk", [100, 1 << 20])
def test_the_same_errors(tmp_path, broken, chunk):
    file = tmp_path / "a.nt"
    file.write_text("\n".join([*PLAIN, *OTHER, broken, *PLAIN]), "utf-8")
    one, other = both(file, chunk)
    assert isinstance(other, str) and other == one
    assert other.startswith(f"{file}:{len(PLAIN + OTHER) + 1}: ")


def test_what_is_not_utf8(tmp_path):
    file = tmp_path / "a.nt"
    file.write_bytes(PLAIN[0].encode() + b'\n<http://e.org/a> <http://e.org/p> "\xe9" .\n')
    assert both(file, 1 << 20)[0] == both(file, 1 << 20)[1] and f"{file}:2: " in both(file, 10)[1]


@settings(max_examples=60, deadline=None)
@given(st.sampled_from(PLAIN), st.integers(0, 90), st.sampled_from('<>"\\ \t.#:@^%[]{}|`é\x00\x7f_a\r'), st.booleans())
def test_a_letter_changed_is_read_as_pyoxigraph_reads_it(tmp_path_factory, line, at, letter, replace):
    file = tmp_path_factory.mktemp("nt") / "a.nt"
    file.write_bytes((line[:at] + letter + line[at + replace :] + "\n" + PLAIN[0] + "\n").encode())
    one, other = map(canonical, both(file, 1 << 20))
    assert one == other
