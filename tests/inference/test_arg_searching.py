"""ArG's searches over one engine and one labeller: the same as alone, what they cost, and what goes wrong in one."""

import pytest
from transformers import set_seed

from envs.arg_env import ArgEnv
from graphwalker.errors import KGUnavailable, UserError
from graphwalker.inference.chat_tokens import ChatTokens
from graphwalker.inference.engine import Sampling
from graphwalker.inference.searching import run_searches
from graphwalker.inference.transformers_engine import TransformersEngine
from graphwalker.inference.transformers_labels import TransformersLabeller
from graphwalker.protocol.reflection import ALL, PARAGRAPH, PARAGRAPH_END, parse
from graphwalker.search.arg_node import ArgNode
from graphwalker.search.searchers import REFLECTIVE
from graphwalker.search.settings import SearchConfig
from graphwalker.train import tiny
from graphwalker.train.reflection_vocab import add_tokens

SAMPLING = Sampling(max_new_tokens=6)


@pytest.fixture(scope="module")
def reflective(toy_tokenizer):
    """A random tiny model and a tokenizer with the reflection tokens."""
    import copy

    tokenizer = copy.deepcopy(toy_tokenizer)
    set_seed(0)
    model = tiny.make_model(tokenizer, width=32, layers=2, heads=1)
    add_tokens(model, tokenizer)
    return model.eval(), tokenizer


class Lenient(TransformersLabeller):
    """Finds the last label of three less likely than the model does, which would prune nearly everything."""

    def _label_logits(self, hidden, group):
        logits = super()._label_logits(hidden, group)
        return logits - [0, 0, 2] if len(group) == 3 else logits


@pytest.fixture
def run(reflective, toy_tasks, toy_arg_env):
    model, tokenizer = reflective

    def searched(
        questions=None, make_env=toy_arg_env, at_a_time=None, max_length=400, labeller=None, may_fail=False, **settings
    ):
        engine = TransformersEngine(model, tokenizer, capacity=8, max_length=max_length)
        labeller = labeller or Lenient(model, tokenizer, max_length=max_length)
        questions = questions or [question for question, _ in toy_tasks]
        config = SearchConfig(**{"searcher": "arg_beam", **settings})
        found = run_searches(
            questions, make_env, engine, lambda nodes: [], config, SAMPLING, labeller=labeller, at_a_time=at_a_time
        )
        done = {search.trajectory.question.id: search for search in found}
        assert not engine.rows
        if not may_fail:
            assert not [
                search.trajectory.extra["error"] for search in done.values() if search.trajectory.ending == "error"
            ]
        return [done[question.id] for question in questions]

    return searched


def shape(search):
    """A tree without what rounding may change."""
    return [
        (n["parent"], n.get("text"), n["limit"], n["answer"], n.get("hypothesis")) for n in search.tree_json()["nodes"]
    ]


@pytest.mark.parametrize("searcher", sorted(REFLECTIVE))
def test_a_search_is_the_same_alone_or_among_others(run, searcher):
    many, one = run(searcher=searcher, beam_width=2), run(searcher=searcher, beam_width=2, at_a_time=1)
    assert max(len(shape(a)) for a in many) > 12
    for a, b in zip(many, one, strict=True):
        assert shape(a) == shape(b)
        assert a.trajectory.answer == b.trajectory.answer
        for at, other in zip(a.tree_json()["nodes"], b.tree_json()["nodes"], strict=True):
            assert at["total"] == pytest.approx(other["total"], abs=1e-4)


def test_what_a_search_cost_and_what_it_says(run):
    (search, *_) = run()
    extra, cost = search.trajectory.extra, search.trajectory.extra["cost"]
    nodes = search.tree_json()["nodes"]
    judged = sum(node.get("kind") in ("relation", "entity", "answer", "topic") for node in nodes)
    assert cost["value_calls"] == judged and cost["value_tokens"] > judged
    assert cost["actor_calls"] >= 2 and cost["tokens"] > 0 and 0 < cost["value_seconds"] < cost["seconds"]
    assert extra["searcher"] == "arg_beam" and extra["stopped"] == "searched" and extra["protocol"] == "reflection"
    assert sum(extra["endings"].values()) == len(search.tree.ends)
    trajectory = search.trajectory
    winner = search.tree.valid[0] if search.tree.valid else None
    if winner is not None:
        counted = trajectory.prompt_tokens + trajectory.completion_tokens + trajectory.observation_tokens
        assert counted == len(winner.tokens())


def test_a_path_has_the_tokens_that_training_gives_it(run, reflective):
    _, tokenizer = reflective
    chat, texts = ChatTokens(tokenizer), 0
    for search in run(beam_width=2):
        topics = search.tree.root.episode.topics()
        for node in search.tree.root.walk():
            if isinstance(node, ArgNode) and node.kind in ("relation", "entity") and node.limit != "length":
                message = "".join(step.message() for step in node.steps())
                prompt = next(topic.prompt for topic in topics if topic.entity == node.steps()[0].entity)
                whole = chat.prompt([{"role": "user", "content": prompt}])
                assert node.tokens() == whole + tokenizer(message, add_special_tokens=False)["input_ids"]
                assert parse(message).problems == ()
                texts += 1
    assert texts > 20


def test_a_claim_without_room_ends_its_branch(run, toy_tasks):
    whole = run()[0]
    prompt = whole.trajectory.prompt_tokens
    (search,) = run([toy_tasks[0][0]], max_length=prompt + 12)
    assert search.trajectory.ending in ("answered", "budget")
    assert any(node["limit"] == "length" for node in search.tree_json()["nodes"])


def test_budgets_end_a_search_and_it_answers_with_what_it_has(run, toy_tasks):
    (search,) = run([toy_tasks[0][0]], max_actor_calls=1, arg_depth=1)
    assert search.trajectory.extra["stopped"] == "actor_calls"
    kept = [n for n in search.tree_json()["nodes"] if n.get("kind") == "entity" and not n["limit"]]
    assert bool(search.trajectory.answer) == bool(kept)


def test_an_outage_ends_the_question_alone(run, toy_tasks, toy_arg_env):
    def make():
        env = toy_arg_env()
        ends = env.ends

        def fail(entity, edge, limit, without=()):
            if env._question.id == "toy-2":
                raise KGUnavailable("gone", kind="refused")
            return ends(entity, edge, limit, without)

        env.ends = fail
        return env

    found = run(make_env=make)
    assert found[1].trajectory.ending == "outage" and found[1].trajectory.extra["outage"] == "refused"
    assert "outage" not in {search.trajectory.ending for search in (found[0], found[2], found[3])}


def test_a_graph_over_a_network_is_asked_in_threads(run, toy_arg_env, monkeypatch):
    alone = run()
    monkeypatch.setattr(ArgEnv, "waits", True)
    for a, b in zip(run(), alone, strict=True):
        assert shape(a) == shape(b)


def test_an_exception_of_the_labeller_is_one_question_s_own(run, reflective, toy_tasks):
    class Failing(Lenient):
        def tell(self, asks):
            if any(self.tokenizer.decode(list(ask.ids)).count("Which country is Lyon in?") for ask in asks):
                raise ValueError("no")
            return super().tell(asks)

    found = run(labeller=Failing(*reflective, max_length=400), may_fail=True)
    assert [search.trajectory.ending == "error" for search in found] == [False, True, False, False]


def test_a_labeller_that_is_gone_ends_the_run(run, reflective):
    class Gone(Lenient):
        def tell(self, asks):
            raise UserError("no server at X; the same command goes on from where this one stopped")

    with pytest.raises(UserError, match="no server at X"):
        run(labeller=Gone(*reflective, max_length=400))


def test_a_probability_that_is_no_number_is_an_error(run, reflective, toy_tasks):
    class Broken(Lenient):
        def _label_logits(self, hidden, group):
            return super()._label_logits(hidden, group) * float("nan")

    (search,) = run([toy_tasks[0][0]], labeller=Broken(*reflective, max_length=400), may_fail=True)
    assert search.trajectory.ending == "error" and "no number" in search.trajectory.extra["error"]


def test_a_tokenizer_without_the_tokens(run, toy_tokenizer, reflective):
    with pytest.raises(UserError, match="reflection token"):
        run(labeller=TransformersLabeller(reflective[0], toy_tokenizer))
    assert set(ALL) <= set(reflective[1].get_vocab())


def test_linear_decoding_of_the_same_checkpoint(run):
    for search in run(searcher="linear", search_temperature=0):
        turns = search.trajectory.turns
        assert search.trajectory.extra["protocol"] == "reflection" and turns
        assert [node.depth for node in search.tree.root.walk()] == list(range(len(turns) + 1))
        for turn in turns[:-1]:
            if turn.observation.endswith(PARAGRAPH_END):
                assert turn.text.endswith(PARAGRAPH)
