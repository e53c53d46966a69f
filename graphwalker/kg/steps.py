"""What can be walked from each entity and where it leads, computed for a whole graph at once.

`KGStore.steps` and `KGStore.expand` say what is wanted; here it is made of joins over integer arrays.
"""

from collections import defaultdict
from typing import NamedTuple

import numpy as np

from graphwalker.errors import UserError
from graphwalker.kg.store import Step
from graphwalker.kg.table import TripleTable, distinct_rows, first_of_runs, pairs

MAX_PAIRS = 2**31 - 1  # edges into a mediator times edges out of it, over all mediators


class Walks(NamedTuple):
    """All facts as an agent sees them, by entity, step and the other end's name."""

    steps: list[Step]  # sorted; a code is a place in it
    facts: np.ndarray  # (n, 3) entity, code, the other end: sorted, one for each name of the other end
    starts: np.ndarray  # (s,) where the facts of one entity and code begin
    shown: np.ndarray  # (s,) bool: False for an incoming step that states a declared reverse again


def all_walks(table: TripleTable, mediators: np.ndarray, rank: np.ndarray) -> Walks:
    """Every visible fact, in both directions, flattened across mediators.

    `mediators` is (terms,) bool; `rank` (terms,) is equal for terms that print alike, and grows with the terms' order.
    Literals and mediators have no steps. Raises `UserError` when flattening explodes, naming the worst mediator.
    """
    visible = np.array([table.schema.is_visible(p) for p in table.predicates], bool)
    rows = table.rows[visible[table.rows[:, 1]]]
    is_literal = np.fromiter((text[0] == '"' for text in table.terms), bool, len(table.terms))
    _check_fan(rows, mediators, table.terms)
    found = _walk_rows(rows, mediators, is_literal)
    width = len(table.predicates) + 1
    keys, kind = np.unique((found[:, 1] * width + found[:, 2] + 1) * 2 + found[:, 3], return_inverse=True)
    steps = [_step(table.predicates, key // 2 // width, key // 2 % width - 1, key % 2) for key in keys.tolist()]
    order = sorted(range(len(steps)), key=steps.__getitem__)
    place = np.empty(len(order), np.int64)
    place[order] = np.arange(len(order))
    steps = [steps[i] for i in order]
    facts = distinct_rows(np.column_stack([found[:, 0], place[kind], found[:, 4]]))
    facts = facts[first_of_runs(np.column_stack([facts[:, :2], rank[facts[:, 2]]]))]
    starts = np.flatnonzero(first_of_runs(facts[:, :2]))
    return Walks(steps, facts, starts, ~_is_reverse(facts[starts, :2], steps, reverses(table)))


def _check_fan(rows: np.ndarray, mediators: np.ndarray, terms: list[str]) -> None:
    into = np.bincount(rows[:, 2], minlength=len(terms))
    outof = np.bincount(rows[:, 0], minlength=len(terms))
    fan = np.where(mediators, into * outof, 0)
    if fan.sum() > MAX_PAIRS:
        worst = int(fan.argmax())
        raise UserError(
            f"flattening across mediators gives {fan.sum():,} pairs; the worst is {terms[worst]!r} with "
            f"{into[worst]:,} edges in and {outof[worst]:,} out: "
            "give such nodes names, or narrow the schema's rule for mediators"
        )


def _step(predicates: list[str], first: int, second: int, inverse: int) -> Step:
    parts = (predicates[first],) if second < 0 else (predicates[first], predicates[second])
    return Step(".".join(parts), bool(inverse), parts)


def _walk_rows(rows: np.ndarray, mediators: np.ndarray, is_literal: np.ndarray) -> np.ndarray:
    """(m, 5) entity, first part, second part or -1, inverse, other end: all visible facts, possibly repeated."""
    from_mediator, to_mediator = mediators[rows[:, 0]], mediators[rows[:, 2]]
    plain = rows[~from_mediator & ~to_mediator]
    back = plain[~is_literal[plain[:, 2]] & (plain[:, 0] != plain[:, 2])]
    into, outof = rows[~from_mediator & to_mediator], rows[from_mediator & ~to_mediator]
    crossed = _across(into[:, [2, 1, 0]], outof)  # (head, first part, second part, tail)
    uncrossed = crossed[~is_literal[crossed[:, 3]]]
    return np.concatenate(
        [
            _columns(plain[:, 0], plain[:, 1], -1, 0, plain[:, 2]),
            _columns(back[:, 2], back[:, 1], -1, 1, back[:, 0]),
            _columns(crossed[:, 0], crossed[:, 1], crossed[:, 2], 0, crossed[:, 3]),
            _columns(uncrossed[:, 3], uncrossed[:, 1], uncrossed[:, 2], 1, uncrossed[:, 0]),
        ]
    )


def _columns(*columns: np.ndarray | int) -> np.ndarray:
    return np.column_stack(np.broadcast_arrays(*columns)).astype(np.int64)


def _across(into: np.ndarray, outof: np.ndarray) -> np.ndarray:
    """(m, 4) head, relation, relation, tail: the ways across each mediator, but not back to where they came from.

    `into` and `outof` hold (mediator, relation, term).
    """
    outof = distinct_rows(outof)
    begin = np.searchsorted(outof[:, 0], into[:, 0], "left")
    count = np.searchsorted(outof[:, 0], into[:, 0], "right") - begin
    left = np.repeat(np.arange(len(into)), count)
    right = np.repeat(begin - (np.cumsum(count) - count), count) + np.arange(len(left))
    rows = np.column_stack([into[left, 2], into[left, 1], outof[right, 1], outof[right, 2]])
    return rows[rows[:, 0] != rows[:, 3]]


def reverses(table: TripleTable) -> dict[str, set[str]]:
    """Relation -> its declared reverses, both ways."""
    reverses: dict[str, set[str]] = defaultdict(set)
    for predicate in table.schema.reverse_predicates:
        for s, o in pairs(table, predicate):
            reverses[table.terms[s]].add(table.terms[o])
            reverses[table.terms[o]].add(table.terms[s])
    return reverses


def _is_reverse(entries: np.ndarray, steps: list[Step], reverses: dict[str, set[str]]) -> np.ndarray:
    """(m,) bool: whether the (entity, code) is an incoming step whose declared reverse runs out of the same entity."""
    forward = {step.parts: code for code, step in enumerate(steps) if not step.inverse}
    keys = entries[:, 0] * len(steps) + entries[:, 1]  # sorted
    by_code = np.argsort(entries[:, 1], kind="stable")
    bounds = np.searchsorted(entries[by_code, 1], np.arange(len(steps) + 1))
    found = np.zeros(len(entries), bool)
    for code, step in enumerate(steps):
        for parts in reversed_parts(step.parts, reverses) if step.inverse else ():
            if parts in forward:
                mine = by_code[bounds[code] : bounds[code + 1]]
                wanted = entries[mine, 0] * len(steps) + forward[parts]
                at = np.minimum(np.searchsorted(keys, wanted), len(keys) - 1)
                found[mine] |= keys[at] == wanted
    return found


def reversed_parts(parts: tuple[str, ...], reverses: dict[str, set[str]]) -> list[tuple[str, ...]]:
    """The relation paths that state the same facts from the other end."""
    if len(parts) == 1:
        return [(q,) for q in sorted(reverses.get(parts[0], ()))]
    return [(b, a) for a in sorted(reverses.get(parts[0], ())) for b in sorted(reverses.get(parts[1], ()))]
