"""A node of ArG's tree: a topic entity, a candidate relation or entity with what was said of it, or an answer."""

from dataclasses import dataclass, field
from typing import Any, Literal

from graphwalker.kg.hops import Edge
from graphwalker.search.arg_scores import Logprobs, chosen, confidences
from graphwalker.search.node import Node

Kind = Literal["topic", "relation", "entity", "answer"]


@dataclass(eq=False, slots=True)
class ArgNode(Node):
    """What it adds to the message is ``text`` and the labels that the model gave (tokens: ``ids``).

    ``value`` is S(d) of the hop that an entity ends, or the last term of Eq. 5 for an answer; ``total`` the sum over
    the path. ``limit`` says why a candidate ended: "unrelevant", "unreasonable" or "length". ``retrieval`` is how
    likely each retrieval token is after it.
    """

    kind: Kind = "topic"
    text: str = ""
    name: str = ""  # a relation as `protocol.reflection.write_relation` gives it, an entity's name
    entity: str = ""  # the id at which the path stands
    edge: Edge | None = None  # a relation's
    hop: int = 0
    labels: tuple[Logprobs, ...] = ()
    retrieval: Logprobs | None = None
    logprob: float = 0.0  # of the tokens of ``text``, in all
    read: int = 0  # how many those are
    notes: dict[str, Any] = field(default_factory=dict)

    def parts(self) -> list[list[int]]:
        """As of any node; but a topic's own prompt is all that is before it."""
        return [node.ids for node in self.steps()]

    def labels_given(self) -> list[str]:
        return [chosen(logprobs) for logprobs in self.labels]

    def message(self) -> str:
        """What it adds to the message, its labels included."""
        return self.text + "".join(self.labels_given())

    def steps(self) -> "list[ArgNode]":
        """The path from the topic to here, the topic included."""
        return [node for node in self.path() if isinstance(node, ArgNode)]

    def relations(self) -> tuple[str, ...]:
        """The relations of the path."""
        return tuple(node.name for node in self.steps() if node.kind == "relation")

    def details(self) -> dict[str, Any]:
        """What the tree's JSON says beside what it says of any node; probabilities are Eq. 4's."""
        given = [*self.labels, *([self.retrieval] if self.retrieval is not None else [])]
        return {
            "kind": self.kind,
            "text": self.message(),
            "name": self.name,
            "entity": self.entity,
            "hop": self.hop,
            "labels": [{k: round(v, 6) for k, v in confidences(logprobs).items()} for logprobs in given],
            "logprob": round(self.logprob, 6),
            "tokens": self.read,
            **self.notes,
        }
