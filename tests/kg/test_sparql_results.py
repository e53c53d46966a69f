"""What an HTTP answer means, when the breaker opens, and that equal queries are sent once."""

import json
import threading

import httpx
import pytest

from graphwalker.errors import KGUnavailable, UserError
from graphwalker.kg.answers import Answers
from graphwalker.kg.breaker import Breaker
from graphwalker.kg.endpoint import decoded, pages
from graphwalker.kg.sparql_http import HEADERS, PASSWORD, USER, Endpoint, SparqlClient, checked_url, credentials
from graphwalker.kg.sparql_results import JSON, XML, NotInXml, QueryFailed, interpret
from graphwalker.kg.sparql_store import number


def select(*rows):
    return json.dumps({"head": {"vars": ["x", "y"]}, "results": {"bindings": rows}}).encode()


ROW = {"x": {"type": "literal", "value": "Paris", "xml:lang": "en"}}


def test_no_rows_are_an_answer():
    assert interpret(200, httpx.Headers(), select()).rows == []
    assert interpret(200, httpx.Headers(), b'{"head": {}, "boolean": false}').boolean is False


@pytest.mark.parametrize(
    ("status", "headers", "body", "kind", "said", "retry"),
    [
        (
            200,
            {"X-SQL-State": "S1TAT", "X-SQL-Message": "Returning incomplete results"},
            select(),
            "timeout",
            "limit",
            0,
        ),
        (200, {"x-sql-state": "S1TAT"}, select(ROW), "timeout", "limit", 0),
        (500, {}, b"Virtuoso S1T00 Error SR171: Transaction timed out", "timeout", "S1T00", 0),
        (200, {"X-SQL-State": "40001"}, select(), "server", "40001", 1),
        (504, {}, b"", "timeout", "504", 0),
        (503, {}, b"busy", "server", "busy", 1),
        (500, {}, b"", "server", "500", 1),
        (404, {}, b"", "server", "404", 0),
        (401, {}, b"", "server", "401", 0),
        (400, {}, b"syntax error", "query", "syntax", 0),
        (200, {}, b"", "malformed", "nothing", 1),
        (200, {}, select(ROW)[:-20], "malformed", "JSON", 1),
        (200, {}, b"<html>busy</html>", "malformed", "busy", 1),
        (200, {}, b"[]", "malformed", "SPARQL", 1),
        (200, {}, b'{"head": {"vars": []}, "results": {}}', "malformed", "bindings", 1),
        (200, {}, b'{"head": {}, "boolean": "no"}', "malformed", "boolean", 1),
        (200, {}, select({"x": {"type": "uri"}}), "malformed", "value", 1),
        (200, {}, select({"x": "Paris"}), "malformed", "SPARQL", 1),
        (200, {}, b"\xff\xfe", "malformed", "SPARQL", 1),
    ],
)
def test_what_is_no_answer_is_never_empty(status, headers, body, kind, said, retry):
    with pytest.raises(QueryFailed, match=said) as caught:
        interpret(status, httpx.Headers(headers), body)
    failure = caught.value
    assert (failure.kind, failure.retry) == (kind, bool(retry))
    assert failure.status == ("kg_timeout" if kind == "timeout" else "kg_error")


XML_HEAD = b'<sparql xmlns="http://www.w3.org/2005/sparql-results#"><head><variable name="x"/></head>'


def in_xml(*terms):
    found = b"".join(b'<result><binding name="x">' + term + b"</binding></result>" for term in terms)
    return XML_HEAD + b"<results>\n" + found + b"</results>\n</sparql>\n"


def read(body):
    return [row["x"] for row in decoded(interpret(200, httpx.Headers(), body), str)]


def test_xml_gives_the_terms_that_json_gives():
    terms = [
        (b"<uri>http://e/?a=1&amp;b=2</uri>", {"type": "uri", "value": "http://e/?a=1&b=2"}),
        (b"<bnode>b1</bnode>", {"type": "bnode", "value": "b1"}),
        (b"<bnode>nodeID://b1</bnode>", {"type": "bnode", "value": "nodeID://b1"}),
        (
            b"<literal>Tom &amp; Jerry&#39;s \n\t&lt;b&gt;</literal>",
            {"type": "literal", "value": "Tom & Jerry's \n\t<b>"},
        ),
        (b"<literal>&#32;x&#13;&#10;&#1;y&#32;</literal>", {"type": "literal", "value": " x\r\n\x01y "}),
        (b"<literal/>", {"type": "literal", "value": ""}),
        (b'<literal xml:lang="en-GB">x</literal>', {"type": "literal", "value": "x", "xml:lang": "en-GB"}),
        (
            b'<literal datatype="http://www.w3.org/2001/XMLSchema#boolean">1</literal>',
            {"type": "typed-literal", "value": "1", "datatype": "http://www.w3.org/2001/XMLSchema#boolean"},
        ),
    ]
    assert read(in_xml(*(xml for xml, _ in terms))) == read(select(*({"x": term} for _, term in terms)))
    assert interpret(200, httpx.Headers(), in_xml()).rows == []
    for says, truth in ((b"true", True), (b"false", False)):
        assert interpret(200, httpx.Headers(), XML_HEAD + b"<boolean>" + says + b"</boolean></sparql>").boolean is truth
    for rows, truth in ((in_xml(b"<literal>1</literal>"), True), (in_xml(), False)):
        assert interpret(200, httpx.Headers(), rows.replace(b'"x"', b'"__ASK_RETVAL"')).boolean is truth


def test_a_result_in_xml_that_is_cut_anywhere_is_malformed():
    whole = in_xml(b"<literal>Paris</literal>", b"<uri>http://e/a</uri>").rstrip()
    for end in range(1, len(whole)):
        with pytest.raises(QueryFailed) as caught:
            interpret(200, httpx.Headers(), whole[:end])
        assert (caught.value.kind, caught.value.retry) == ("malformed", True) and not isinstance(caught.value, NotInXml)


def test_xml_that_defines_entities_is_not_read():
    laughs = b'<?xml version="1.0"?><!DOCTYPE s [<!ENTITY a "ha"><!ENTITY b "&a;&a;">]>'
    with pytest.raises(NotInXml):
        interpret(200, httpx.Headers(), laughs + in_xml(b"<literal>&b;</literal>"))


@pytest.mark.parametrize(
    "term",
    [
        b"<literal> x</literal>",
        b'<literal xml:lang="en">x </literal>',
        b"<literal>x\ry</literal>",
        b"<literal>x\x01y</literal>",
        b"<literal>\xef\xbf\xbe</literal>",
        b"<literal><![CDATA[x]]></literal>",
        b"<literal>x<!-- y -->z</literal>",
        b"<uri>no scheme</uri>",
        b"<bnode>a b</bnode>",
        b"<literal>x</uri>",
        b"<other>x</other>",
    ],
)
def test_what_xml_does_not_give_exactly_is_asked_for_in_json(term, monkeypatch):
    with pytest.raises(NotInXml):
        interpret(200, httpx.Headers(), in_xml(term))
    asked = []

    def serve(request):
        asked.append(request.headers["Accept"])
        return httpx.Response(200, content=select(ROW) if asked[-1] == JSON else in_xml(term))

    real = httpx.AsyncClient
    monkeypatch.setattr(httpx, "AsyncClient", lambda **kw: real(**kw, transport=httpx.MockTransport(serve)))
    client = SparqlClient(Endpoint("http://h/sparql", attempts=1))
    assert decoded(client.run("SELECT"), str) == [{"x": '"Paris"@en'}]
    assert [text.startswith(XML) for text in asked] == [True, False] and client.counts == {"sent": 2}
    client.close()


def test_the_server_says_when_to_come_back():
    with pytest.raises(QueryFailed) as caught:
        interpret(503, httpx.Headers({"Retry-After": "7"}), b"")
    assert caught.value.after == 7


def test_terms():
    rows = [
        {"x": {"type": "uri", "value": "http://e/a"}, "y": {"type": "bnode", "value": "b1"}},
        {"x": {"type": "typed-literal", "value": "7", "datatype": "http://www.w3.org/2001/XMLSchema#integer"}},
        {"x": {"type": "literal", "value": 'a "b"', "xml:lang": "EN"}},
        {"x": {"type": "bnode", "value": "nodeID://b1"}},
        {"x": {"type": "typed-literal", "value": "1", "datatype": "http://www.w3.org/2001/XMLSchema#boolean"}},
        {"x": {"type": "literal", "value": "s", "datatype": "http://www.w3.org/2001/XMLSchema#string"}},
    ]
    assert decoded(interpret(200, httpx.Headers(), select(*rows)), lambda iri: iri.rpartition("/")[2]) == [
        {"x": "a", "y": "urn:graphwalker-blank:b1"},
        {"x": '"7"^^<http://www.w3.org/2001/XMLSchema#integer>'},
        {"x": '"a \\"b\\""@en'},
        {"x": "b1"},
        {"x": '"true"^^<http://www.w3.org/2001/XMLSchema#boolean>'},
        {"x": '"s"'},
    ]


def test_the_breaker_opens_and_lets_one_through_at_a_time():
    now = [0.0]
    breaker = Breaker(2, 10, clock=lambda: now[0])
    breaker.failed()
    assert breaker.admits()
    breaker.failed()
    assert not breaker.admits()
    now[0] = 10
    assert breaker.admits() and not breaker.admits()
    breaker.failed()
    assert not breaker.admits()
    now[0] = 20
    assert breaker.admits()
    breaker.succeeded()
    assert breaker.admits() and breaker.admits()


def test_equal_queries_under_way_share_one_answer_and_failures_are_not_kept():
    answers, calls, go = Answers(300), [], threading.Event()

    def slow():
        calls.append(1)
        assert go.wait(5)
        return [1]

    got = []
    threads = [threading.Thread(target=lambda: got.append(answers.get("q", slow))) for _ in range(8)]
    for thread in threads:
        thread.start()
    go.set()
    for thread in threads:
        thread.join()
    assert got == [[1]] * 8 and len(calls) == 1

    def fails():
        calls.append(1)
        raise QueryFailed("server", "no")

    for _ in range(2):
        with pytest.raises(QueryFailed):
            answers.get("bad", fails)
    assert len(calls) == 3
    for _ in range(2):
        answers.get("long", lambda: calls.append(1) or [0] * 4)  # too many rows to keep
    assert len(calls) == 5
    for question in range(100):
        answers.get(question, lambda: [1, 2])
    assert sum(len(kept) + 1 for kept in answers._kept.values()) == answers._rows == 300  # a hundred of three
    answers.get(0, lambda: calls.append(1))
    assert len(calls) == 5


def test_settings_and_credentials():
    assert Endpoint.from_json({"url": "http://h:1/sparql", "rate": 3}, "x").rate == 3
    for wrong in (
        {},
        {"url": "ftp://h"},
        {"url": "http://u:p@h/"},
        {"url": "http://h", "timeout": 0},
        {"url": "http://h", "x": 1},
    ):
        with pytest.raises(UserError):
            Endpoint.from_json(wrong, "x")
    auth, headers = credentials({USER: "u", PASSWORD: "p", HEADERS: '{"X-Key": "k"}'})
    assert auth is not None and headers == {"X-Key": "k"}
    assert credentials({}) == (None, {})
    with pytest.raises(UserError, match=HEADERS):
        credentials({HEADERS: "X-Key: k"})


def test_a_server_that_asks_for_hours_is_not_asked_again_and_nonsense_is_no_time():
    for text, after, retry in [(b"99999", 99999, False), (b"9" * 400, 999999999, False), (b"\xb2", 0, True)]:
        with pytest.raises(QueryFailed) as caught:
            interpret(429, httpx.Headers({"Retry-After": text}), b"")
        assert (caught.value.after, caught.value.retry) == (after, retry)


@pytest.mark.parametrize(
    "body",
    [
        b'{"head": {"vars": []}, "results": {"bindings": {}}}',
        b'{"head": {"vars": []}, "results": {"bindings": ""}}',
        select({"x": {"type": "literal", "value": "x", "xml:lang": 5}}),
        select({"x": {"type": "literal", "value": "x", "xml:lang": 'en"'}}),
        select({"x": {"type": "literal", "value": "x", "datatype": ["y"]}}),
        select({"x": {"type": "uri", "value": ""}}),
        select({"x": {"type": "uri", "value": '"x"'}}),
        select({"x": {"type": "bnode", "value": ""}}),
    ],
)
def test_results_of_the_wrong_shape_are_malformed(body):
    with pytest.raises(QueryFailed) as caught:
        interpret(200, httpx.Headers(), body)
    assert caught.value.kind == "malformed"


def test_rows_without_what_was_asked_for_are_an_outage():
    (row,) = decoded(interpret(200, httpx.Headers(), select(ROW)), str)
    assert row["x"] == '"Paris"@en' and "k" not in row and row.get("k") is None
    with pytest.raises(QueryFailed, match="without .k"):
        row["k"]
    for term in ("", "http://x", '"x"'):
        with pytest.raises(KGUnavailable, match="for a number"):
            number(term)


@pytest.mark.parametrize(
    "url", ["ftp://me:secret@h/x", "me:secret@h", "http://me:secret@", "http://me:s/secret@\ud800/"]
)
def test_a_password_in_a_url_is_never_said(url):
    with pytest.raises(UserError) as caught:
        checked_url(url)
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize(
    "wrong",
    [
        {"timeout": float("nan")},
        {"rate": float("inf")},
        {"params": 5},
        {"params": {"a": [1]}},
        {"graph": None},
        {"connections": 1.5},
        {"attempts": True},
    ],
)
def test_settings_of_the_wrong_kind_are_named(wrong):
    with pytest.raises(UserError, match=next(iter(wrong))):
        Endpoint.from_json({"url": "http://h", **wrong}, "x")


@pytest.mark.parametrize("headers", [{"X": "\u00e9"}, {"\u00e9": "x"}, {"X": "a\nb"}, {"X y": "z"}, {"": "z"}])
def test_headers_that_http_cannot_send_are_named(headers):
    with pytest.raises(UserError, match="no header can"):
        credentials({HEADERS: json.dumps(headers)})


def test_a_server_that_ignores_limit_or_offset_does_not_keep_a_program_for_ever():
    assert len(list(pages(lambda query: [{"x": "a"}] * (5 if query.endswith("OFFSET 0") else 2), "q", 5))) == 7
    with pytest.raises(QueryFailed, match="LIMIT 5 OFFSET 0"):
        list(pages(lambda query: [{"x": "a"}] * 6, "q", 5))
    with pytest.raises(QueryFailed, match="LIMIT 500 OFFSET 500"):
        list(pages(lambda query: [{"x": str(i)} for i in range(500)], "q", 500))
