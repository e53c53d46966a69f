"""ArG's tree inference (Algorithm 1): retrieval on demand, candidates judged by reflection tokens, a beam over hops.

Where the algorithm leaves a choice: what follows a hop is decided by the likeliest retrieval token; a relation that is
not unrelevant is always followed by its entities; the last hop's states always answer. A state from which no candidate
is left ends its branch and answers with the score that it has. A branch ends at [Unreasonable]; such a branch answers,
as in training at once, only where no other one does.
"""

from collections.abc import Sequence
from itertools import count
from typing import Any

from graphwalker.protocol.reflection import (
    ALL,
    NO_RETRIEVAL,
    RETRIEVAL,
    UTILITY,
    answer,
    parse,
)
from graphwalker.search import arg_scores as scores
from graphwalker.search.arg_answers import rank
from graphwalker.search.arg_hop import Hop, judged
from graphwalker.search.arg_node import ArgNode
from graphwalker.search.requests import Begin, Claim, Judge, Search, Write
from graphwalker.search.tree import Tree
from graphwalker.types import Turn

Leaves = list[ArgNode]


def arg_beam(tree: Tree) -> Search:
    """The best ``beam_width`` states of each hop go on."""
    yield from _search(tree, tree.config.beam_width)


def arg_exhaustive(tree: Tree) -> Search:
    """All states that are not pruned go on, of a hop at most ``arg_states``."""
    yield from _search(tree, tree.config.arg_states)


def _search(tree: Tree, width: int) -> Search:
    hop = Hop(tree, count(1))
    leaves: Leaves = []
    try:
        states = yield from _topics(hop)
        ended: Leaves = []  # at [Unreasonable]
        ending: Leaves = []  # states that are to answer
        for depth in range(1, tree.config.arg_depth + 1):
            going = [state for state in states if wants_more(state)]
            ending += [state for state in states if not wants_more(state)]
            if not going:
                states = []
                break
            found = yield from hop.take(going, depth)
            ending += found.dead_ends
            ended += found.unreasonable
            states = sorted(found.kept, key=lambda state: -state.total)[:width]
        ending += states
        yield from _answers(hop, ending, leaves)
        if not any(leaf.answer for leaf in leaves) and ended:
            yield from _answers(hop, sorted(ended, key=lambda state: -state.total)[:width], leaves)
        tree.stopped = "searched"
    finally:  # a budget may have closed it
        if not any(leaf.answer for leaf in leaves):
            leaves += _unwritten(hop)
        rank(tree, leaves)


def wants_more(state: ArgNode) -> bool:
    """Whether retrieval follows a state: whether [No Retrieval] is not the likeliest retrieval token after it."""
    return state.retrieval is None or scores.chosen(state.retrieval) != NO_RETRIEVAL


def _topics(hop: Hop) -> Any:
    """The states that paths start from, one a topic entity."""
    topics = hop.episode.topics()
    prompts = yield Begin([topic.prompt for topic in topics])
    states = []
    for topic, ids in zip(topics, prompts, strict=True):
        node = ArgNode(hop.episode, hop.tree.root, ids=list(ids), kind="topic", name=topic.name, entity=topic.entity)
        states.append(hop.grow(node))
    verdicts = yield Judge([Claim(state) for state in states], [RETRIEVAL])
    for state, verdict in zip(states, verdicts, strict=True):
        state.retrieval = verdict.labels[0] if verdict.labels else None
    return states


def _answers(hop: Hop, states: Sequence[ArgNode], leaves: Leaves) -> Any:
    """Let states answer, and have the answers' utility judged; a leaf is added for each."""
    if not states:
        return
    written = yield Write([Claim(state, NO_RETRIEVAL) for state in states], ALL)
    new = []
    for state, wrote in zip(states, written, strict=True):
        names = parse(NO_RETRIEVAL + wrote.text).path.answers or ()
        text = answer(names)
        leaf = ArgNode(hop.episode, state, ids=[*wrote.claim_ids, *wrote.ids], kind="answer", text=text, hop=state.hop)
        leaf.logprobs = list(wrote.logprobs)
        leaf.turn = Turn("".join(state.labels_given()) + NO_RETRIEVAL + wrote.text, "", "answer", text)
        leaf.ending, leaf.answer = "answered", tuple(dict.fromkeys(names))
        new.append(hop.grow(leaf))
    yield from judged(new, [UTILITY], after=True)
    settings = hop.tree.config
    for state, leaf in zip(states, new, strict=True):
        useful = scores.utility(leaf.labels[0], settings.arg_utility) if leaf.labels else 0.0
        leaf.value = scores.end_score(useful, settings)
        hops = max(1, state.hop) if settings.arg_path == "mean" else 1
        leaf.total = state.total / hops + leaf.value
        hop.tree.ends.append(leaf)
        leaves.append(leaf)


def _unwritten(hop: Hop) -> Leaves:
    """The best entity that was kept, as an answer that no model wrote; nothing where there is none."""
    named = (node for node in hop.nodes if node.kind == "entity" and not node.limit and node.name != node.entity)
    best = max(named, key=lambda node: (node.total, -node.number), default=None)
    if best is None:
        return []
    leaf = ArgNode(hop.episode, best, kind="answer", text=answer([best.name]), hop=best.hop, total=best.total)
    leaf.ending, leaf.answer, leaf.value = "answered", (best.name,), 0.0
    leaf.turn = Turn(leaf.text, "", "answer", leaf.text)
    leaf.notes["unwritten"] = True
    hop.tree.ends.append(leaf)
    return [hop.grow(leaf)]
