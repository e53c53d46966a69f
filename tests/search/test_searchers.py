"""Every searcher on the toy KG with a scripted actor: which states it expands, when it ends, and who wins."""

import pytest

from graphwalker.protocol.render import render_turn
from graphwalker.search.requests import Expand, Score, Together
from graphwalker.search.searchers import SEARCHERS, VALUED
from graphwalker.search.tree import is_valid
from graphwalker.search.vote import candidates, winner

LOOK = render_turn("Look.", "query", 'get_relations("France")')
TRIPLES = render_turn("Walk.", "query", 'get_triples("France", ["location.country.capital"])')


def answer(*names):
    return render_turn("Done.", "answer", "[" + ", ".join(f'"{name}"' for name in names) + "]")


def looking(node, sample):
    return LOOK


def at_depth(*turns):
    """Says the turn of a state's depth; where that is a list, the one of the sample."""

    def act(node, sample):
        turn = turns[min(node.depth, len(turns) - 1)]
        return turn[sample % len(turn)] if isinstance(turn, list) else turn

    return act


SOLVES = at_depth(LOOK, TRIPLES, answer("Paris"))


def expanded(drive):
    found = []
    for request in drive.requests:
        if isinstance(request, Expand):
            found.append(request.node.number)
        elif isinstance(request, Together):
            found += [expansion.node.number for expansion in request.expansions]
    return found


@pytest.mark.parametrize("searcher", SEARCHERS)
def test_every_searcher_finds_what_its_actor_knows(search, searcher):
    tree, drive = search(SOLVES, searcher=searcher, selections=100)
    assert winner(tree).answer == ("Paris",)
    assert any(isinstance(request, Score) for request in drive.requests) == (searcher in VALUED)
    assert tree.stopped == ("played" if searcher in ("linear", "majority_vote") else "valid")


def test_linear_and_majority_vote_are_runs_of_their_own(search):
    tree, drive = search(SOLVES, searcher="linear")
    assert drive.calls == 3 and [node.depth for node in tree.root.walk()] == [0, 1, 2, 3]
    tree, drive = search(at_depth(LOOK, TRIPLES, answer("Paris")), searcher="majority_vote", runs=4, merge_equal=True)
    assert drive.calls == 12 and len(tree.root.children) == 4
    assert [len(request.expansions) for request in drive.requests[1:]] == [4, 4]
    assert candidates(tree.valid)[0].votes == 4


def test_breadth_first_depth_first_and_random(search):
    settings = {"width": 2, "selections": 6, "valid_terminals": 99}
    tree, drive = search(looking, searcher="bfs", **settings)
    assert expanded(drive) == [0, 1, 2, 3, 4, 5]
    tree, drive = search(looking, searcher="dfs", **settings)
    assert expanded(drive) == [0, 1, 3, 5, 7, 9]
    tree, drive = search(at_depth(LOOK, LOOK, TRIPLES, answer("Paris")), searcher="dfs", **settings)
    assert expanded(drive) == [0, 1, 3, 5, 6, 4]  # back to the sibling once a branch has ended
    first, second = (expanded(search(looking, searcher="random_walk", **settings)[1]) for _ in range(2))
    assert first == second != [0, 1, 2, 3, 4, 5]


def test_a_beam_keeps_the_best_of_a_level(search):
    def value(nodes):
        return [1.0 if node.number in (2, 3, 7, 8) else 0.5 for node in nodes]

    settings = {"searcher": "ig_beam", "width": 3, "beam_width": 2, "max_depth": 3}
    tree, drive = search(looking, value, **settings)
    assert [[e.node.number for e in r.expansions] for r in drive.requests if isinstance(r, Together)] == [
        [0],
        [2, 3],
        [7, 8],
    ]
    assert tree.stopped == "exhausted" and {node.limit for node in tree.ends} == {"depth"}


def test_rollouts_stay_out_of_the_tree_and_vote(search):
    tree, drive = search(SOLVES, searcher="classic_mcts", width=3, valid_terminals=3)
    assert [node.depth for node in tree.root.walk()] == [0, 1, 1, 1]
    assert drive.calls == 3 + 3 * 2 and tree.stopped == "valid"
    assert [node.depth for node in tree.valid] == [3, 3, 3]
    (score,) = [request for request in drive.requests if isinstance(request, Score)]
    assert list(score.nodes) == tree.valid  # the value is that of the state a rollout came to


def test_terminal_children_are_scored_without_a_rollout(search):
    tree, drive = search(at_depth([LOOK, answer("Paris")]), searcher="classic_mcts", width=2, selections=1)
    assert tree.simulated == 1
    (score,) = [request for request in drive.requests if isinstance(request, Score)]
    assert score.nodes[1] is tree.root.children[1]


@pytest.mark.parametrize("searcher", ["classic_mcts", "fast_mcts"])
def test_ends_when_the_simulations_are_used_up(search, searcher):
    tree, _ = search(looking, searcher=searcher, width=4, simulations=10, selections=99, max_depth=4)
    assert tree.stopped == "simulations" and tree.simulated == 10
    assert [len(node.children) for node in tree.root.walk() if node.children] == [4, 4, 2]


@pytest.mark.parametrize("searcher", sorted(SEARCHERS.keys() - {"linear", "majority_vote", "ig_beam"}))
def test_ends_when_the_selections_are_used_up(search, searcher):
    tree, _ = search(looking, searcher=searcher, width=2, selections=3)
    assert tree.stopped == "selections" and tree.selected == 3


@pytest.mark.parametrize("searcher", sorted(SEARCHERS.keys() - {"linear", "majority_vote"}))
def test_ends_where_everything_is_at_the_maximum_depth(search, searcher):
    tree, _ = search(looking, searcher=searcher, width=2, selections=99, beam_width=9, max_depth=2)
    assert tree.stopped == "exhausted"
    assert [node.depth for node in tree.root.walk()] == [0, 1, 2, 2, 1, 2, 2]
    assert winner(tree).ending == "budget" and winner(tree).answer is None


@pytest.mark.parametrize("searcher", sorted(SEARCHERS.keys() - {"linear", "majority_vote"}))
def test_ends_with_enough_valid_terminals(search, searcher):
    tree, _ = search(SOLVES, searcher=searcher, width=2, valid_terminals=2, selections=99)
    assert tree.stopped == "valid" and len(tree.valid) >= 2


def test_an_environment_may_end_a_branch_before_the_maximum_depth(search):
    tree, _ = search(looking, searcher="linear", max_turns=3)
    assert tree.ends[0].ending == "budget" and tree.ends[0].limit == "" and tree.ends[0].depth == 3


def test_what_is_a_valid_terminal(search):
    answers = [answer("Paris"), answer(), LOOK]
    tree, _ = search(at_depth(TRIPLES.replace("capital", "nothing"), answers), searcher="bfs", width=3, selections=2)
    assert [is_valid(node) for node in tree.root.children[0].children] == [False, False, False]  # no query ran
    tree, _ = search(at_depth(LOOK, answers), searcher="bfs", width=3, selections=2)
    assert [is_valid(node) for node in tree.root.children[0].children] == [True, False, False]


def test_the_majority_wins_and_of_equals_the_first(search):
    given = [answer("Lyon"), answer("Paris"), answer("paris"), answer("Spain", "Lyon"), answer("Lyon", "Spain")]
    tree, _ = search(at_depth(LOOK, given), searcher="dfs", selections=2, valid_terminals=99)
    assert [(c.node.answer, c.votes) for c in candidates(tree.valid)] == [
        (("Paris",), 2),
        (("Spain", "Lyon"), 2),
        (("Lyon",), 1),
    ]
    assert winner(tree).answer == ("Paris",)


def test_without_a_valid_terminal_what_was_answered_first_counts(search):
    tree, _ = search(at_depth([LOOK, answer(), answer("Lyon")]), searcher="bfs", width=3, selections=1)
    assert not tree.valid and winner(tree).answer == ()
    tree, _ = search(looking, searcher="bfs", width=2, selections=2)
    assert winner(tree).depth == 2 and winner(tree).ending is None


@pytest.mark.parametrize("searcher", ["classic_mcts", "fast_mcts"])
def test_all_samples_identical(search, searcher):
    settings = {"searcher": searcher, "selections": 3, "valid_terminals": 99}
    apart, _ = search(looking, max_depth=6, **settings)
    merged, drive = search(looking, max_depth=6, merge_equal=True, **settings)
    assert [len(node.children) for node in apart.root.walk() if node.children] == [5, 5, 5]
    assert [node.samples for node in merged.root.walk()] == [1, 5, 5, 5]
    assert apart.root.visits == merged.root.visits == 15
    assert apart.root.total == pytest.approx(merged.root.total)


def test_merged_samples_vote_and_count_as_often_as_they_were_drawn(search):
    given = [answer("Lyon"), answer("Paris"), answer("Paris")]
    tree, _ = search(at_depth(LOOK, given), searcher="dfs", width=3, selections=2, merge_equal=True, valid_terminals=3)
    assert len(tree.root.children) == 1 and [node.samples for node in tree.valid] == [1, 2]
    assert winner(tree).answer == ("Paris",) and candidates(tree.valid)[0].votes == 2
    assert tree.select(lambda tree: tree.root) is None and tree.stopped == "valid"


def test_thoughts_do_not_keep_samples_apart(search):
    turns = [LOOK, LOOK.replace("Look.", "Other words."), "well...", "well...", "hm"]
    tree, _ = search(at_depth(turns), searcher="bfs", selections=1, merge_equal=True)
    assert [node.samples for node in tree.root.children] == [2, 2, 1]
