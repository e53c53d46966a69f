from collections import Counter
from dataclasses import replace

import pytest

from data_pipelines.graphroll import KINDS, graphroll
from data_pipelines.graphsynth import Item, graphsynth
from data_pipelines.teachers import NamedBranch, TemplateTeacher
from envs.kg_env import KGEnv
from graphwalker.metrics.trajectory import grounded, reflects
from graphwalker.rewards import em, em_set
from graphwalker.types import Entity

WORDS = 16  # of a thought, at most: sequence length is what a tiny model pays for


@pytest.fixture(scope="module")
def synth(items, toolbox):
    return list(graphsynth(items, toolbox, TemplateTeacher(), dropped=Counter()))


@pytest.fixture(scope="module")
def roll(items, toolbox):
    return list(graphroll(items, toolbox, TemplateTeacher(), recovery=0.5, dropped=Counter()))


def test_questions_name_their_topics_and_nothing_that_is_to_be_found(items):
    assert len(items) > 200
    for item in items:
        text = item.question.text.casefold()
        for branch in item.named:
            assert branch.names[0].casefold() in text
            found = f" {' '.join(''.join(c if c.isalnum() else ' ' for c in text).split())} "
            assert not any(f" {name.casefold()} " in found for name in branch.names[1:] if name.isalnum())


def test_questions_carry_their_gold(items, demo_store):
    for item in items:
        question = item.question
        (answer,) = question.answers
        assert question.structure == item.walk.structure and question.hops == item.walk.hops
        assert len(question.topic_entities) == len(question.paths) == len(item.walk.branches)
        assert [entity.id for entity in question.topic_entities] == list(item.walk.topics)
        if item.walk.answer.startswith('"'):
            assert answer.id is None and answer.name in item.walk.answer
        else:
            assert answer.id == item.walk.answer and [answer.name] == demo_store.names([answer.id])
            assert list(answer.aliases) == demo_store.aliases(answer.id)


def test_every_trajectory_is_right_and_grounded_and_takes_the_shortest_way(items, synth):
    assert len(synth) == len(items)
    for item, trajectory in synth:
        assert (
            em(trajectory.answer, trajectory.question.answers) == em_set(trajectory.answer, item.question.answers) == 1
        )
        assert grounded(trajectory) and trajectory.ending == "answered"
        assert {turn.status for turn in trajectory.turns} == {"ok"}
        hops = sum(len(branch.relations) for branch in item.walk.branches)
        assert len(trajectory.turns) == 2 * hops + 1 <= 10


def test_observations_are_what_the_environment_says_at_inference(synth, toolbox):
    for _, trajectory in synth[::7]:
        env = KGEnv(toolbox)
        env.reset(options={"question": trajectory.question})
        for turn in trajectory.turns:
            assert env.step(turn.text)[0] == turn.observation
        assert env.trajectory().turns == trajectory.turns


def test_each_query_asks_for_one_relation_and_each_name_was_seen_before_it_is_used(synth):
    for item, trajectory in synth:
        seen = {branch.names[0] for branch in item.named}
        for turn in trajectory.turns:
            if turn.kind == "query":
                assert any(f'("{name}"' in turn.action for name in seen)
                assert turn.action.count('"') == (2 if turn.action.startswith("get_relations") else 4)
            seen.update(n for b in item.named for n in b.names if n in turn.observation)


def test_thoughts_are_short_and_name_the_bridge(synth):
    for item, trajectory in synth:
        for turn in trajectory.turns:
            assert 2 <= len(turn.thought.split()) <= WORDS, turn.thought
        if item.walk.structure == "3-hop":
            assert item.named[0].names[1] in trajectory.turns[2].thought


def test_a_wrong_walk_is_dropped_and_counted(items, toolbox):
    item = next(i for i in items if i.walk.structure == "1-hop")
    lie = replace(item.question, answers=(Entity("Nowhere"),))
    dropped = Counter()
    assert list(graphsynth([replace(item, question=lie)], toolbox, TemplateTeacher(), dropped=dropped)) == []
    branch = item.named[0]
    made_up = Item(item.walk, (NamedBranch(branch.names, ("no.such.relation",)),), item.question)
    assert list(graphsynth([made_up], toolbox, TemplateTeacher(), dropped=dropped)) == []
    assert dropped == {"the answer is wrong or was not seen": 1, "a query came back refused": 1}


def test_the_expert_errs_in_its_share_of_the_questions_in_every_way(items, roll):
    erring = [trajectory for _, trajectory in roll if trajectory.extra["detours"]]
    assert abs(len(erring) - len(items) / 2) <= 2
    kinds = Counter(kind for trajectory in erring for kind in trajectory.extra["kinds"])
    assert set(kinds) == set(KINDS) and min(kinds.values()) > len(erring) / len(KINDS) / 2


def test_the_expert_backs_out_and_says_so(roll):
    for item, trajectory in roll:
        assert em(trajectory.answer, item.question.answers) == 1 and grounded(trajectory)
        assert len(trajectory.turns) <= 10
        detours = trajectory.extra["detours"]
        if not detours:
            assert {turn.status for turn in trajectory.turns} == {"ok"}
            continue
        (kind,) = trajectory.extra["kinds"]
        for place in detours:
            assert trajectory.turns[place].status in KINDS[kind]
        after = trajectory.turns[detours[-1] + 1]
        assert after.status == "ok" and reflects(after.thought), after.thought
        assert len(after.thought.split()) <= WORDS


def test_a_dead_end_is_walked_into_and_left(roll):
    dead_ends = [(i, t) for i, t in roll if t.extra["kinds"] == ["wrong_entity"]]
    for item, trajectory in dead_ends:
        first, second = trajectory.extra["detours"]
        assert second == first + 1 and trajectory.turns[second].action.startswith("get_relations")
        names = {name for branch in item.named for name in branch.names}
        assert not any(f'get_relations("{name}")' == trajectory.turns[second].action for name in names)
        assert "dead end" in trajectory.turns[second + 1].thought


@pytest.mark.parametrize("share", [0.0, 1.0])
def test_the_share_of_recoveries_is_the_users(items, toolbox, share):
    made = list(graphroll(items[:60], toolbox, TemplateTeacher(), recovery=share, dropped=Counter()))
    assert {bool(trajectory.extra["detours"]) for _, trajectory in made} == {share == 1.0}


def test_the_expert_is_deterministic(items, roll, toolbox):
    again = list(graphroll(items, toolbox, TemplateTeacher(), recovery=0.5, dropped=Counter()))
    assert again == roll
