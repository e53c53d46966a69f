"""What of SPARQL may be run: nothing forbidden passes, nothing innocent is refused."""

import contextlib
import sys
import tracemalloc

import pyoxigraph as ox
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from graphwalker.errors import QueryRefused
from graphwalker.kg.guard import QueryLimits, guard, write_iri, write_literal
from graphwalker.kg.sparql_tokens import Token, tokenize

UPDATES = [
    "INSERT DATA { <http://a> <http://b> <http://c> }",
    "DELETE WHERE { ?s ?p ?o }",
    "DELETE { ?s ?p ?o } INSERT { ?s ?p 1 } WHERE { ?s ?p ?o }",
    "WITH <http://g> DELETE { ?s ?p ?o } WHERE { ?s ?p ?o }",
    "LOAD <http://evil/x>",
    "LOAD SILENT <file:///etc/passwd> INTO GRAPH <http://g>",
    "CLEAR ALL",
    "DROP GRAPH <http://g>",
    "CREATE GRAPH <http://g>",
    "COPY <http://a> TO <http://b>",
    "MOVE DEFAULT TO <http://b>",
    "ADD <http://a> TO DEFAULT",
]
OTHER_FORMS = ["CONSTRUCT { ?s ?p ?o } WHERE { ?s ?p ?o }", "DESCRIBE <http://a>", "DESCRIBE ?x { ?x a ?y }"]
BAD_PATTERNS = [
    "SERVICE <http://evil> { ?s ?p ?o }",
    "SERVICE SILENT ?e { ?s ?p ?o }",
    "GRAPH <http://other> { ?s ?p ?o }",
    "GRAPH ?g { ?s ?p ?o }",
    "BIND(<bif:http_get>('http://evil') AS ?b)",
    "FILTER(<sql:rdf_load>(?s))",
    "FILTER(<http://www.openlinksw.com/schemas/bif#exec>('x'))",
    "{ INSERT DATA { <http://a> <http://b> 1 } }",
]
GOOD_PATTERNS = [
    "?s ?p ?o .",
    '?s a <http://t/SERVICE> ; <http://p/insert> \'DROP ALL; LOAD <x> # SERVICE\', """} INSERT {"""@en .',
    "OPTIONAL { ?service ?load ?insert }",
    "{ ?s a ?t } UNION { ?s (<http://a>|^<http://b>)*/<http://c>? ?t }",
    "FILTER(STR(?s) != 'SERVICE <http://x> {}' && xsd:integer(?o) > -1 || !BOUND(?p))",
    'FILTER NOT EXISTS { ?s <http://drop> ?x MINUS { ?s ?p "DELETE" } }',
    "VALUES (?s ?p) { (<http://a> UNDEF) (1 'LIMIT 5') }",
    "BIND(IF(REGEX(STR(?s), \"^LOAD\", 'i'), 'CLEAR', COALESCE(?x, 1.5e3)) AS ?clear)",
    "{ SELECT (COUNT(DISTINCT ?s) AS ?n) { ?s ?p ?o } GROUP BY ?p HAVING(COUNT(?s) > 1) ORDER BY DESC(?n) LIMIT 3 }",
    "[] <http://p> ( 1 [ a ?t ] '''x''' ) . ?s <http://q> _:b , true .",
    "?s schema:insert ns:service.load.from # SERVICE <http://evil> { }\n .",
]
HIDES = [
    lambda text: text,
    str.lower,
    str.title,
    lambda text: "".join(f"\\u{ord(c):04X}" if c.isalpha() else c for c in text),
    lambda text: "".join(f"\\U{ord(c):08x}" if c in "SILDCE" else c for c in text),
    lambda text: text.replace(" ", " # '''\n "),
    lambda text: text.replace(" ", '\t#"\r'),
    lambda text: '# "\n' + text,
    lambda text: "#\\u000A\n" + text,
]
PREFIXES = {"schema": "http://s/"}

good = st.lists(st.sampled_from(GOOD_PATTERNS), min_size=1, max_size=4, unique=True).map("\n".join)
forms = st.sampled_from(["SELECT * {%s}", "SELECT DISTINCT ?s WHERE {%s} ORDER BY ?s", "ASK {%s}", "SELECT ?s {{%s}}"])


@st.composite
def bad_queries(draw):
    """A forbidden update, form or pattern, somewhere in a query and hidden somehow."""
    hide = draw(st.sampled_from(HIDES))
    if draw(st.booleans()):
        bad = hide(draw(st.sampled_from(UPDATES + OTHER_FORMS)))
        return draw(st.sampled_from(["%s", "SELECT * { ?s ?p ?o } ; %s", "SELECT * { ?s ?p ?o }\n%s", "%s;"])) % bad
    text = hide(draw(st.sampled_from(BAD_PATTERNS)))
    for nest in draw(
        st.lists(st.sampled_from(["{%s}", "OPTIONAL {%s}", "FILTER EXISTS {%s}", "{SELECT * {%s}}"]), max_size=3)
    ):
        text = nest % text
    return draw(forms) % "\n".join([draw(good), text, draw(good)])


@settings(deadline=None)  # wall-clock time, which a busy machine stretches
@given(bad_queries())
def test_nothing_forbidden_passes(text):
    with pytest.raises(QueryRefused) as caught:
        guard(text, prefixes=PREFIXES)
    assert "\n" not in str(caught.value) and len(str(caught.value)) < 200


@settings(deadline=None)
@given(forms, good)
def test_nothing_innocent_is_refused_and_the_engine_reads_the_same(form, patterns):
    safe = guard(form % patterns, QueryLimits(rows=7), prefixes=PREFIXES)
    assert safe.limit == (None if safe.form == "ASK" else 7)
    assert not {"#", "schema"} & {token.text for token in tokenize(safe.text)}
    ox.Store().query(safe.text.replace("ASK", "SELECT *", 1))  # would raise SyntaxError
    assert guard(safe.text, QueryLimits(rows=7)) == safe


SOUP = "SELECT ASK INSERT DELETE DATA SERVICE LOAD GRAPH FROM WHERE FILTER LIMIT OPTIONAL VALUES { } ( ) * . ; ?s ?p ?o"
soup = st.sampled_from([*SOUP.split(), "<http://a>", "'SERVICE'", "# LOAD\n", "\\u0053ERVICE", "7", "a"])


@settings(deadline=None)
@given(st.lists(soup, max_size=12).map(" ".join), st.booleans())
def test_whatever_passes_is_one_plain_query(text, wrapped):
    try:
        safe = guard(f"SELECT * {{ ?s ?p ?o {text} }}" if wrapped else text)
    except QueryRefused:
        return
    words = [token.word() for token in tokenize(safe.text)]
    assert words[0] == safe.form and safe.form in ("SELECT", "ASK")
    assert not {"INSERT", "DELETE", "DATA", "SERVICE", "LOAD", "GRAPH", "FROM"} & set(words)


LONG = [
    "a-",
    "a.",
    "<a",
    "<?a",
    "'''",
    '"',
    "a:b.",
    "(",
    "?s ?p ?o .",
    "\\u0041",
    "-1e",
    "@a-",
    "_:a.",
    "xsd:dateTime(",
]


def calls(text):
    """How many calls of functions the guard makes for a text: its work, on a machine of any speed."""
    count = 0

    def counter(frame, event, argument):
        nonlocal count
        count += event in ("call", "c_call")

    sys.setprofile(counter)
    try:
        with contextlib.suppress(QueryRefused):
            guard(text)
    finally:
        sys.setprofile(None)
    return count


@pytest.mark.parametrize("part", LONG)
def test_the_work_does_not_grow_faster_than_the_text(part):
    half, whole = (calls("SELECT * { " + part * (n // len(part)) + " }") for n in (9_500, 19_000))
    assert whole < 2.5 * half + 1_000


@settings(deadline=None)
@given(st.text(max_size=60), st.sampled_from(["", "en", "zh-Hans"]))
def test_any_text_is_one_literal(value, language):
    try:
        written = write_literal(value, language)
    except ValueError:
        assert any(c == "\0" or "\ud800" <= c <= "\udfff" for c in value)
        return
    tokens = tokenize(written)
    assert tokens[0] == Token("STRING", value) and len(tokens) == 1 + bool(language)
    text = f"SELECT ?x {{ ?x <http://p> {written} }}"
    assert f"{written.removesuffix('@' + language.lower())}" in guard(text).text
    (row,) = ox.Store().query(f"SELECT ({written} AS ?v) {{}}")
    assert row[0].value == value


@settings(deadline=None)
@given(st.text(max_size=20))
def test_a_name_never_leaves_its_iri(name):
    try:
        written = write_iri("http://x/" + name)
    except ValueError:
        return
    assert tokenize(written) == [Token("IRI", "http://x/" + name)]


def test_broken_tags_and_datatypes_are_refused():
    for arguments in [("x", "en> ;"), ("x", "", "http://a b"), ("x", "", "a>b")]:
        with pytest.raises(ValueError):
            write_literal(*arguments)


@pytest.mark.parametrize(
    ("text", "limit", "end"),
    [
        ("SELECT * { ?s ?p ?o }", 10, "LIMIT 10"),
        ("SELECT * { ?s ?p ?o } LIMIT 3", 3, "LIMIT 3"),
        ("SELECT * { ?s ?p ?o } LIMIT 9999", 10, "LIMIT 10"),
        (f"SELECT * {{ ?s ?p ?o }} LIMIT {'9' * 6000}", 10, "LIMIT 10"),
        ("SELECT * { ?s ?p ?o } limit 0", 0, "limit 0"),
        ("SELECT * { ?s ?p ?o } OFFSET 2 LIMIT 99", 10, "OFFSET 2 LIMIT 10"),
        ("SELECT * { ?s ?p ?o } LIMIT 99 OFFSET 2", 10, "LIMIT 10 OFFSET 2"),
        ("SELECT * { ?s ?p ?o } ORDER BY ?s VALUES ?s { 1 }", 10, "ORDER BY ?s LIMIT 10 VALUES ?s { 1 }"),
        ("SELECT * { { SELECT ?s { ?s ?p ?o } LIMIT 99 } }", 10, "LIMIT 99 } } LIMIT 10"),
    ],
)
def test_a_limit_on_the_outer_query(text, limit, end):
    safe = guard(text, QueryLimits(rows=10))
    assert safe.limit == limit and safe.text.endswith(end)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "the query is empty"),
        ("# SELECT * { ?s ?p ?o }", "the query is empty"),
        ("hello world", "a query begins with SELECT or ASK, not 'hello'"),
        ("SELECT * { ?s ?p }", "not SPARQL at '}' .token 6."),
        ("SELECT * { ?s ?p ?o", "the query ends too early"),
        ("SELECT * { ?s ?p ?o } SELECT * { ?s ?p ?o }", "not SPARQL at 'SELECT'"),
        ("SELECT * FROM <http://g> { ?s ?p ?o }", "the graph <http://g> is not to be read"),
        ("SELECT * FROM NAMED <http://g> { ?s ?p ?o }", "the graph <http://g> is not to be read"),
        ("SELECT * { ?s ?p ?o FILTER(FOO(?s)) }", "the word 'FOO' has no place"),
        ("SELECT * { " + "{" * 30 + "}" * 30 + " }", "brackets stand more than 24 deep"),
        ("SELECT * { ?s ?p ?o } # " + "x" * 20_000, "the query has 20,024 characters, 20,000 are allowed"),
        ("DEFINE get:soft 'soft' SELECT * { ?s ?p ?o }", "DEFINE is not allowed"),
    ],
)
def test_the_reason_is_one_line_that_says_what_to_change(text, reason):
    with pytest.raises(QueryRefused, match=reason):
        guard(text)


def test_graphs_and_functions_that_are_allowed():
    text = "SELECT * FROM <http://g> { GRAPH <http://g> { ?s ?p ?o } FILTER(<http://f>(?s)) }"
    assert guard(text, graphs=["http://g"], functions=["http://f"]).form == "SELECT"
    with pytest.raises(ValueError, match="positive"):
        QueryLimits(rows=0)


GROWN = [
    "PREFIX p: <http://" + "x" * 1_900 + "> SELECT * { ?s ?p " + "p:, " * 4_000 + "1 }",
    "PREFIX p: <http://" + "x" * 9_000 + "> SELECT * { ?s ?p " + "p:, " * 2_000 + "1 }",
    "BASE <http://h/" + "x/" * 4_000 + "> SELECT * { ?s ?p " + "<a>, " * 2_000 + "1 }",
    "SELECT * { " + "FILTER(xsd:dateTime(?x)) " * 790 + "}",
]


@pytest.mark.parametrize("text", GROWN)
def test_short_names_do_not_make_a_long_query(text):
    tracemalloc.start()
    try:
        with pytest.raises(QueryRefused, match="characters"):
            guard(text)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 7_600_000  # the first of them, written out, takes that alone


@pytest.mark.parametrize(
    "text",
    [
        "BASE <http://[x> SELECT * { ?s ?p <a> }",
        "BASE <http://x/> SELECT * { ?s ?p <//[a> }",
        "BASE <urn:x> SELECT * { ?s ?p <a> }",
        "\u017fELECT * { ?s ?p ?o }",
        "SELECT * { ?s ?p ?o } L\u0131MIT 5",
    ],
)
def test_what_is_no_iri_or_keyword_is_refused(text):
    with pytest.raises(QueryRefused):
        guard(text)


@pytest.mark.parametrize("condition", ["?x<?y&&?z>1", "?x<3&&?y>1", "IF(?x<1,?y>2,false)", "(?x<1)||(?y>2)"])
def test_a_comparison_without_blanks_is_no_iri(condition):
    safe = guard(f"SELECT * {{ ?x ?y ?z FILTER({condition}) }}")
    assert not any(token.kind == "IRI" for token in tokenize(safe.text))
    ox.Store().query(safe.text)
