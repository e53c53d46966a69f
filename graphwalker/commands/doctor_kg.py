"""What `graphwalker doctor` says of a knowledge graph."""

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from itertools import islice
from typing import Any, Protocol, cast

from graphwalker.commands.doctor_machine import Finding
from graphwalker.errors import KGUnavailable, QueryRefused, UserError
from graphwalker.kg.guard import QueryLimits
from graphwalker.kg.meta import read_meta
from graphwalker.kg.open import open_kg
from graphwalker.kg.store import KGStore
from graphwalker.kg.terms import literal_value
from graphwalker.kg.worker import QueryWorker
from graphwalker.types import Triple

_SAMPLE = 20_000  # triples that are read to find entities and mediators
_NODES = 200
_CHECKED = 20
_SLOW_MS = 100.0
_PREDICATES = ("name_predicates", "alias_predicates", "type_predicates", "hidden_predicates")
_HURRIED, _PATIENT = QueryLimits(seconds=0.5), QueryLimits(seconds=60)
_ROWS = 10**10  # of this query, on any graph
_EXPENSIVE = "SELECT (COUNT(*) AS ?n) {{ {} }}".format(
    " ".join(f"VALUES ?v{i} {{ {' '.join(map(str, range(10)))} }}" for i in range(10))
)


def check_kg(kg: str, known: Sequence[Triple] = ()) -> Iterator[Finding]:
    """The checks, one after the other; the first outage ends them."""
    try:
        store = open_kg(kg)
        size = len(store)
        if size == 0:
            yield Finding("error", f"{kg} opens and is empty", "build it again from a source that has triples")
            return
        yield Finding("ok", f"{kg}: {size:,} triples, {len(store.vocabulary()):,} relations")
        sample = list(islice(store, _SAMPLE))
        nodes = _nodes(store, sample)
        yield from _triples(store, sample, known)
        yield from _undeclared(store)
        yield _names(store, nodes)
        yield _mediators(store, nodes)
        yield _speed(store, nodes)
        yield _timeouts(kg, store)
    except (UserError, QueryRefused) as error:
        yield Finding("error", f"the knowledge graph cannot be used: {error}")
    except KGUnavailable as error:
        advice = "if a server is behind it, see that it runs and look into its log; else build it again"
        yield Finding("error", f"the knowledge graph does not answer: {error}", advice)


def _nodes(store: KGStore, sample: Sequence[Triple]) -> list[str]:
    """Different nodes of the sample, spread over it, that are no literals."""
    nodes = dict.fromkeys(node for t in sample for node in (t.head, t.tail) if node[0] != '"')
    return list(nodes)[:: max(1, len(nodes) // _NODES)][:_NODES]


def _triples(store: KGStore, sample: Sequence[Triple], known: Sequence[Triple]) -> Iterator[Finding]:
    """Triples that must be there are, and one that cannot be is not."""
    wanted = [*known, *sample[:: max(1, len(sample) // _CHECKED)][:_CHECKED]]
    for triple in wanted:
        if triple not in store or triple not in set(store.match(triple.head, triple.relation, triple.tail)):
            text = f"the triple ({triple.head}, {triple.relation}, {triple.tail}) is missing"
            advice = (
                "look whether its ids are spelled as `graphwalker kg search` shows them, and the source is complete"
            )
            yield Finding("error", text, advice if triple in known else "the graph is damaged: build it again")
            return
    nowhere = Triple("urn:graphwalker:doctor:no-such-entity", wanted[-1].relation, wanted[-1].tail)
    if nowhere in store:
        yield Finding(
            "error", "the graph says yes to a triple that cannot be there", "it answers wrongly: build it again"
        )
        return
    yield Finding("ok", f"{len(wanted)} known triples are present" + (f", {len(known)} of them named" if known else ""))


def _undeclared(store: KGStore) -> Iterator[Finding]:
    """A predicate of the profile that cannot be met, since nothing says what its prefix stands for."""
    for field in _PREDICATES:
        for predicate in getattr(store.schema, field):
            prefix, colon, rest = predicate.partition(":")
            if not colon or rest.startswith("//") or prefix in store.schema.namespaces:
                continue
            if next(store.match(relation=predicate), None) is None:
                text = f"{field}: no triple has {predicate}"
                yield Finding("warning", text, f"declare the prefix {prefix} under namespaces in the schema profile")


def _names(store: KGStore, nodes: Sequence[str]) -> Finding:
    """Entities have names, and a name finds its entity."""
    entities = [node for node in nodes if not store.is_mediator(node)]
    named = [(node, name) for node, name in zip(entities, store.names(entities), strict=True) if name]
    if not named:
        text = f"none of {len(nodes)} sampled nodes has a name"
        return Finding("error", text, "name the predicates of names in the schema profile (docs/own-kg.md)")
    lost = [(node, name) for node, name in named[:_CHECKED] if node not in store.named(name)]
    if lost:
        text = f"the name {lost[0][1]!r} does not find its entity {lost[0][0]}"
        return Finding("error", text, "the index of names is damaged: build the graph again")
    text = f"{len(named)} of {len(entities)} sampled entities have names, and the names find them"
    if len(named) < len(entities) / 2:
        return Finding(
            "warning", text, "an agent sees ids where names are missing: check name_predicates and languages"
        )
    return Finding("ok", text)


def _mediators(store: KGStore, nodes: Sequence[str]) -> Finding:
    """A relation through a mediator shows what is behind it."""
    for node in nodes:
        for step in store.steps(node):
            if len(step.parts) != 2:
                continue
            (expansion,) = store.expand(node, [step.relation], 5)
            ends = [end for triple in expansion.triples for end in (triple.head, triple.tail)]
            if not ends or any(store.is_mediator(end) for end in ends):
                text = f"{step.relation} of {node} shows a mediator or nothing"
                return Finding("error", text, "check the rule for mediators in the schema profile")
            return Finding("ok", f"mediators are flattened: {step.relation} of {node} leads to {ends[-1]}")
    text = f"no mediator (CVT) beside {len(nodes)} sampled nodes"
    return Finding(
        "warning", text, "right for a graph without them; else check the schema profile's rule for mediators"
    )


def _speed(store: KGStore, nodes: Sequence[str]) -> Finding:
    times = []
    for node in nodes[:_CHECKED]:
        begun = time.perf_counter()
        store.steps(node)
        times.append(1e3 * (time.perf_counter() - begun))
    median = sorted(times)[len(times) // 2]
    text = f"relations of an entity take {median:.2f} ms (median of {len(times)})"
    if median > _SLOW_MS:
        return Finding("warning", text, "training will wait for the graph: prefer the memory store, or a server nearby")
    return Finding("ok", text)


class _Asked(Protocol):
    """A store that runs queries under a limit of its own."""

    def query(self, sparql: str) -> Any: ...


def _timeouts(kg: str, store: KGStore) -> Finding:
    """A query without end is ended, and said to be, and the next one is answered."""
    kind = read_meta(kg)["store"]
    if kind == "memory":
        return Finding("ok", "timeouts: look-ups in arrays are bounded; this store runs no SPARQL")
    if kind == "oxigraph":
        with closing(QueryWorker(kg)) as worker:
            worker.execute("ASK {}", _PATIENT)
            return _ended(lambda: worker.execute(_EXPENSIVE, _HURRIED).rows, lambda: worker.execute("ASK {}", _PATIENT))
    asked = cast(_Asked, store)
    return _ended(lambda: asked.query(_EXPENSIVE), lambda: asked.query("ASK {}"))


def _ended(endless: Callable[[], Any], plain: Callable[[], Any]) -> Finding:
    begun = time.perf_counter()
    try:
        (row,) = endless()
        counted = literal_value(row["n"])
    except KGUnavailable as error:
        if error.status != "kg_timeout":
            raise
        took = time.perf_counter() - begun
        plain()
        return Finding("ok", f"timeouts are honoured: a query without end was ended after {took:.1f} s")
    except ValueError:
        counted = "nothing"
    if counted == str(_ROWS):
        return Finding("ok", "timeouts: the server answered the longest query at hand, so none was met")
    text = f"a timeout looks like an answer: a query over {_ROWS:,} rows gave {counted}"
    return Finding("error", text, "raise the server's limit, or have it refuse what it cannot finish")
