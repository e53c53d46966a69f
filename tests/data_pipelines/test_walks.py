from collections import Counter
from itertools import islice

import pytest

from data_pipelines.walks import Walker


def facts(store, node: str, signed: str) -> tuple[list[str], int]:
    """Where a relation leads from a node, walked as signed, in the order of the tools, and how many facts it has."""
    (expansion,) = store.expand(node, [signed.removeprefix("^")], 1000)
    inverse = signed.startswith("^")
    assert all((t.tail if inverse else t.head) == node for t in expansion.triples)
    return [t.head if inverse else t.tail for t in expansion.triples], expansion.total


@pytest.mark.parametrize("structure", ["1-hop", "2-hop", "3-hop"])
def test_chains_have_one_answer_and_no_cycle(demo_store, walks, structure):
    assert len(walks[structure]) == 60
    for walk in walks[structure]:
        (branch,) = walk.branches
        assert walk.structure == structure and walk.hops == int(structure[0]) == len(branch.relations)
        for here, signed, there in zip(branch.nodes, branch.relations, branch.nodes[1:], strict=False):
            assert facts(demo_store, here, signed) == ([there], 1)
            assert not demo_store.is_mediator(there)
        names = [name.casefold() for name in demo_store.names(branch.nodes)]
        assert len(set(names)) == len(names) and len(set(branch.nodes)) == len(branch.nodes)


def test_conjunctions_have_one_answer_together_and_more_apart_and_both_show_it(demo_store, walks):
    assert len(walks["2i"]) == 60
    for walk in walks["2i"]:
        ends = []
        for branch in walk.branches:
            targets, total = facts(demo_store, branch.nodes[0], branch.relations[0])
            assert 1 < total <= 20 and walk.answer in targets[:5] and branch.nodes[-1] == walk.answer
            ends.append(set(targets))
        assert ends[0] & ends[1] == {walk.answer}
        assert len({name.casefold() for name in demo_store.names(sorted(walk.nodes))}) == 3


def test_topic_names_belong_to_no_other_entity(demo_store, walks):
    for walk in (walk for of in walks.values() for walk in of):
        for topic in walk.topics:
            (name,) = demo_store.names([topic])
            assert demo_store.named(name) == demo_store.named(name, ignore_case=True) == [topic]


def test_walks_depend_on_the_seed_alone(demo_store, walks):
    again, other = Walker(demo_store), Walker(demo_store, seed=1)
    assert {s: list(islice(again.draw(s), 60)) for s in walks} == walks
    assert list(islice(other.draw("2-hop"), 60)) != walks["2-hop"]


def test_walks_are_different_and_no_path_or_node_crowds_out_the_rest(demo_store):
    drawn = list(islice(Walker(demo_store).draw("3-hop"), 300))
    assert len({walk.key for walk in drawn}) == len(drawn)
    paths = Counter(walk.path_key for walk in drawn)
    assert len(paths) > 25 and paths.most_common(1)[0][1] < 0.25 * len(drawn)
    met = Counter(node for walk in drawn for node in walk.branches[0].nodes[1:])
    assert met.most_common(1)[0][1] <= max(10, 0.02 * len(drawn))


def test_what_is_not_allowed_is_not_walked(demo_store):
    zones = "location.location.time_zones"
    walker = Walker(demo_store, allow_relation=lambda r: r != zones, allow_node=lambda node: not node.startswith('"'))
    for walk in islice(walker.draw("2-hop"), 100):
        assert zones not in walk.branches[0].relations and not walk.answer.startswith('"')


def test_an_unknown_structure_is_an_error_and_a_tiny_graph_just_ends(toy_store):
    with pytest.raises(ValueError, match="unknown structure"):
        next(Walker(toy_store).draw("6-hop"))
    walks = list(Walker(toy_store).draw("1-hop"))
    assert walks and all(toy_store.names([topic]) != ["Ann Lee"] for walk in walks for topic in walk.topics)
    assert list(Walker(toy_store).draw("5-hop")) == []


def test_a_turned_conjunction_asks_the_same_thing(walks):
    walk = walks["2i"][0]
    assert walk.turned() != walk and walk.turned().key == walk.key and walk.turned().path_key == walk.path_key


@pytest.mark.slow
def test_long_walks_on_the_freebase_slice_are_replayed(data_dir, tmp_path):
    from data_pipelines.graphsynth import graphsynth, make_items
    from data_pipelines.importers import kgs
    from data_pipelines.teachers import TemplateTeacher
    from graphwalker.kg.open import open_kg
    from graphwalker.tools.toolbox import Toolbox

    kgs.build("freebase-slice", data_dir / "fb15k237", tmp_path / "kg", progress=False)
    store, teacher = open_kg(tmp_path / "kg"), TemplateTeacher()
    walker, dropped = Walker(store), Counter()
    for structure in ("4-hop", "5-hop"):
        walks = list(islice(walker.draw(structure), 30))
        assert len(walks) == 30
        items = make_items(walks, walker, store, teacher, dataset="slice", dropped=dropped)
        kept = list(graphsynth(items, Toolbox(store), teacher, dropped=dropped))
        assert len(kept) > 20, dropped
        assert {len(trajectory.turns) for _, trajectory in kept} == {2 * int(structure[0]) + 1}
