"""The protocol of a KG store: what the tools, the environment and the pipelines ask of a knowledge graph.

Nodes are strings. An IRI is printed short by the store's schema profile (``m.02mjmr``, not
``http://rdf.freebase.com/ns/m.02mjmr``); a literal starts with ``"`` and is its N-Triples form, so
the two cannot be confused. Relations are printed short in the same way.

A *step* is a relation as an agent sees it: one edge, or two edges through a mediator (CVT) node
flattened to ``rel1.rel2`` (GraphWalker, appendix F.3). Flattening keeps the direction: both edges run
away from the entity, or both run towards it.

Where the graph itself declares a reverse (``type.property.reverse_property`` in Freebase,
``owl:inverseOf`` in RDF; the schema names the predicate), an incoming step is left out if its reverse
runs out of the same entity: it would state the same facts a second time.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from graphwalker.types import Triple

if TYPE_CHECKING:
    from graphwalker.kg.schema import Schema


@dataclass(frozen=True, slots=True, order=True)
class Step:
    """A relation incident to an entity; ``inverse`` when the entity is its tail.

    ``relation`` is what the agent sees (``rel1.rel2`` for a flattened one, whose halves are in ``parts``).
    """

    relation: str
    inverse: bool = False
    parts: tuple[str, ...] = ()  # (relation,) or (rel1, rel2)


@dataclass(frozen=True, slots=True)
class Expansion:
    """What one relation leads to from an entity: at most ``limit`` triples and how many there are in all.

    ``triples`` hold *node ids*; heads and tails are named nodes or literals, never mediators. ``capped`` says that
    there were too many to look at: these are the first of some, and ``total`` counts only those.
    """

    relation: str
    triples: tuple[Triple, ...]
    total: int
    capped: bool = False


class KGStore(Protocol):
    """A read-only knowledge graph; every answer is deterministic and sorted.

    Raises ``KGUnavailable`` from any method when the graph cannot answer (outage, time-out).
    """

    schema: "Schema"
    remote: bool
    """Whether an answer may wait on a network, so that callers do well to ask for several at a time (in threads)."""

    def __len__(self) -> int:
        """Number of triples."""
        ...

    def __iter__(self) -> Iterator[Triple]: ...

    def __contains__(self, triple: object) -> bool: ...

    def match(self, head: str | None = None, relation: str | None = None, tail: str | None = None) -> Iterator[Triple]:
        """The raw triples that match, ``None`` being a wildcard; mediators and hidden predicates included."""
        ...

    def has_node(self, node: str) -> bool: ...

    def named(self, name: str, *, ignore_case: bool = False) -> list[str]:
        """Ids of the nodes with this very name, most types first, then by id."""
        ...

    def names(self, nodes: Sequence[str]) -> list[str | None]:
        """The name of each node (a literal's is its lexical form); ``None`` for a node without one."""
        ...

    def aliases(self, node: str) -> list[str]:
        """Other names of a node, sorted."""
        ...

    def types(self, node: str) -> list[str]: ...

    def is_mediator(self, node: str) -> bool:
        """Whether the schema takes this node for a CVT: not a literal, and without a name (or an id for one)."""
        ...

    def vocabulary(self) -> Sequence[str]:
        """All visible relations of the graph, flattened ones included, sorted: the corpus that BM25 ranks."""
        ...

    def steps(self, node: str) -> list[Step]:
        """The visible relations incident to a node, out and in, flattened through mediators, sorted, no duplicates.

        A relation that only leads to mediators appears only flattened. Incoming duplicates of declared
        reverses are left out (see the module's docstring).
        """
        ...

    def expand(self, node: str, relations: Sequence[str], limit: int) -> list[Expansion]:
        """For each relation (as ``steps`` prints it; a bare ``rel1`` that leads to mediators stands for all its
        flattened ``rel1.*``), the triples in which ``node`` is head or tail.

        Triples are sorted by (inverse, name of the other end, its id), duplicates by name removed; a
        relation that is not incident gives an expansion with ``total`` 0. A flattened path never leads back
        to ``node`` itself.
        """
        ...
