"""Tool calls that several threads make at a time, answered by the same queries.

Virtuoso takes 15 to 20 ms to compile the query of a tool call, and a few to run it. So a store behind HTTP, which is
asked by many episodes at a time, puts what up to `_SIZE` of them want to know into one query. Who asks alone asks as
`SparqlStore` does, and so does who asks about an entity with very many edges, where an answer has bounds of its own.
"""

from abc import abstractmethod
from collections.abc import Sequence

from graphwalker.kg.answers import Answers
from graphwalker.kg.batches import Batches
from graphwalker.kg.sparql_store import HUB, Row, SparqlStore, labelled, malformed
from graphwalker.kg.sparql_text import LABEL, MORE, OWN_NAME
from graphwalker.kg.store import Step

_SIZE = 16  # entities in a query: the compiler's time hardly grows with them, the answer's does
_KEPT = 200_000  # rows, half a kilobyte each

Steps = tuple[tuple[int, Step], ...]


class TogetherStore(SparqlStore):
    """A `SparqlStore` that keeps answers, and asks for several with `at_once` queries of a kind under way."""

    def __init__(self, *args, at_once: int):
        super().__init__(*args)
        self._answers: Answers[Row] = Answers(_KEPT)
        self._around: Batches[str, list[Row]] = Batches(self._ask_around, _SIZE, at_once)
        self._all_ends: Batches[tuple[str, Steps], list[Row]] = Batches(self._ask_ends, _SIZE, at_once)

    @abstractmethod
    def _fetch(self, sparql: str) -> list[Row]:
        """The rows of a SELECT, from the graph itself. Raises `KGUnavailable`."""

    def rows(self, sparql: str) -> list[Row]:
        return self._answers.get(sparql, lambda: self._fetch(sparql))

    def has_node(self, node: str) -> bool:
        """By what is around it, which whoever asks will want to know next."""
        is_entity = node[:1] != '"' and bool(self.queries.term(node))
        return (is_entity and bool(self._rows_around(node))) or super().has_node(node)

    def _rows_around(self, node: str) -> list[Row]:
        return self._answers.get((node,), lambda: self._around.get(node))

    def _rows_of_ends(self, node: str, steps: Sequence[tuple[int, Step]], most: int) -> list[Row]:
        if most <= HUB:  # the first ends of each step, not all
            return super()._rows_of_ends(node, steps, most)
        question = node, tuple(steps)
        return self._answers.get(question, lambda: self._all_ends.get(question))

    def _ask_around(self, nodes: list[str]) -> list[list[Row]]:
        if len(nodes) == 1:
            return [super()._rows_around(nodes[0])]
        rows = self._fetch(self.queries.around(list(map(self.queries.term, nodes)), HUB))
        found: dict[str, list[Row]] = {node: [] for node in nodes}
        for row in rows:
            if labelled(row["k"], range(OWN_NAME + 1)) == MORE:
                break
            if row["e"] not in found:
                raise malformed(f"a row about {row['e'][:40]!r} came, which was not asked for")
            found[row["e"]].append(row)
        else:
            if not self.max_rows or len(rows) < self.max_rows:
                return [found[node] for node in nodes]
        return self._ask_around(nodes[: len(nodes) // 2]) + self._ask_around(nodes[len(nodes) // 2 :])

    def _ask_ends(self, questions: list[tuple[str, Steps]]) -> list[list[Row]]:
        if len(questions) == 1:
            (node, steps), most = questions[0], HUB + 1
            return [super()._rows_of_ends(node, steps, most)]
        wanted = [
            (at, k, self.queries.term(node), step) for at, (node, steps) in enumerate(questions) for k, step in steps
        ]
        rows = self._fetch(self.queries.all_ends([(term, step) for _, _, term, step in wanted], HUB))
        if len(rows) >= min(HUB, self.max_rows or HUB):
            return self._ask_ends(questions[: len(questions) // 2]) + self._ask_ends(questions[len(questions) // 2 :])
        found: list[list[Row]] = [[] for _ in questions]
        for row in rows:
            at, k, *_ = wanted[labelled(row["k"], range(len(wanted)))]
            row["k"] = LABEL + str(k)
            found[at].append(row)
        return found
