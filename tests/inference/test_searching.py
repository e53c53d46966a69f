"""Many searches over one engine: the same as alone, and one's trouble is its own."""

import random
import threading
from dataclasses import replace

import pytest

from graphwalker.errors import KGUnavailable, UserError
from graphwalker.inference.engine import Completion, Sampling
from graphwalker.inference.searching import run_searches
from graphwalker.protocol import chat, interactive
from graphwalker.protocol.prompts import Prompt
from graphwalker.protocol.render import render_turn
from graphwalker.search.searchers import SEARCHERS
from graphwalker.search.settings import SearchConfig
from graphwalker.search.vote import winner
from graphwalker.tools.chat_server import RequestRefused

SAMPLING = Sampling(max_new_tokens=64)


class ActorEngine:
    """Says what ``actor(text, draw)`` says to a row's text, ``draw`` being the row's own random stream.

    Rows end in an order that depends on how many are open, as rows of different lengths do.
    """

    def __init__(self, tokenizer, actor, *, capacity=16, max_length=4096):
        self.tokenizer, self.actor, self.capacity, self.max_length = tokenizer, actor, capacity, max_length
        self.open, self.steps = {}, 0

    def add(self, key, ids, sampling, seed):
        assert key not in self.open and len(self.open) < self.capacity
        self.open[key] = (list(ids), random.Random(seed))

    def step(self):
        self.steps += 1
        key = list(self.open)[self.steps % len(self.open)]
        ids, draw = self.open[key]
        turn = self.actor(self.tokenizer.decode(ids), draw)
        made = self.tokenizer(turn, add_special_tokens=False)["input_ids"] + [self.tokenizer.eos_token_id]
        return [Completion(key, made, [-0.5] * len(made), True)]

    def release(self, key):
        del self.open[key]


@pytest.fixture
def actor(toy_tasks):
    """Follows the tasks' own turns, but now and then asks or answers something else."""

    def act(text, draw):
        question, turns = next((q, turns) for q, turns in toy_tasks if q.text in text)
        at = text.count("<information>")
        chance = draw.random()
        if chance < 0.15:
            return "well..."
        if chance < 0.3:
            return render_turn("Guess.", "answer", '["Spain"]')
        if chance < 0.4:
            return render_turn("Look.", "query", 'get_relations("Spain")')
        return turns[min(at, len(turns) - 1)]

    return act


def by_length(nodes):
    """A value that tells states apart."""
    return [len(node.turns()[-1].observation) % 7 / 7 for node in nodes]


@pytest.fixture
def run(toy_tokenizer, toy_tasks, toy_env, actor):
    def searched(questions=None, make_env=toy_env, value=by_length, at_a_time=None, act=actor, engine=None, **settings):
        engine = engine or ActorEngine(toy_tokenizer, act)
        questions = questions or [question for question, _ in toy_tasks]
        config = SearchConfig(**{"valid_terminals": 3, "selections": 6, **settings})
        found = run_searches(questions, make_env, engine, value, config, SAMPLING, at_a_time=at_a_time)
        done = {s.trajectory.question.id: s for s in found}
        assert not engine.open
        return [done[question.id] for question in questions]

    return searched


def trees(searched):
    return [search.tree_json() for search in searched]


def without_seconds(trajectory):
    record = trajectory.to_json()
    cost = record["extra"]["cost"]
    record["extra"]["cost"] = {name: cost[name] for name in cost if "seconds" not in name}
    return record


@pytest.mark.parametrize("searcher", SEARCHERS)
def test_a_search_is_the_same_alone_or_among_others(run, searcher, toy_tasks):
    many = run(searcher=searcher)
    one = run(searcher=searcher, at_a_time=1)
    assert trees(many) == trees(one)
    assert [without_seconds(s.trajectory) for s in many] == [without_seconds(s.trajectory) for s in one]
    (alone,) = run([toy_tasks[2][0]], searcher=searcher)
    assert alone.tree_json() == many[2].tree_json()
    assert any(s.trajectory.answer for s in many)


@pytest.mark.parametrize("searcher", ["classic_mcts", "fast_mcts"])
def test_the_prediction_says_what_was_found_and_what_it_cost(run, searcher):
    for search in run(searcher=searcher):
        trajectory, tree = search.trajectory, search.tree
        extra = trajectory.extra
        assert extra["searcher"] == searcher and extra["stopped"] == tree.stopped != ""
        assert sum(extra["endings"].values()) == len(tree.ends)
        assert extra["endings"].get("valid", 0) == len(tree.valid)
        assert extra["cost"]["actor_calls"] >= len(list(tree.root.walk())) - 1
        assert extra["cost"]["tokens"] > 0 and extra["cost"]["seconds"] > 0
        if tree.valid:
            assert list(trajectory.answer) == extra["candidates"][0]["answer"]
            assert trajectory.ending == "answered" and trajectory.turns[-1].kind == "answer"
        tokens = trajectory.prompt_tokens + trajectory.completion_tokens + trajectory.observation_tokens
        assert tokens > 0 and trajectory.completion_tokens > 0


def test_the_tokens_of_a_branch_are_its_conversation(run, toy_tokenizer):
    for search in run(searcher="fast_mcts"):
        if search.trajectory.ending == "answered":
            whole = chat.messages(search.trajectory, Prompt("compact"))
            ids = toy_tokenizer.apply_chat_template(whole, tokenize=True)["input_ids"]
            assert ids[:-1] == winner(search.tree).tokens()


def test_the_interactive_protocol(run, toy_kbqa_env, toy_tokenizer, toy_tasks):
    query = "SELECT ?x WHERE { ns:m.fr ns:location.country.capital ?x }"
    calls = [("SearchNodes", "France"), ("ExecuteSPARQL", query), ("Done",)]
    turns = [interactive.render_turn("Next.", interactive.format_call(*call)) for call in calls]

    def act(text, draw):
        at = text.count("Observation: ")
        return "Thought: Hm." if draw.random() < 0.3 else turns[min(at, 2)]

    question = toy_tasks[0][0]
    for searcher in ("classic_mcts", "fast_mcts"):
        (search,) = run([question], make_env=toy_kbqa_env, act=act, searcher=searcher, selections=12)
        trajectory = search.trajectory
        assert trajectory.answer == ("Paris",) and trajectory.extra["executable"]
        assert trajectory.extra["protocol"] == "interactive" and trajectory.extra["sparql"] == query
        assert not any(turn.observation.startswith("Observation") for turn in trajectory.turns)
        whole = chat.messages(trajectory, Prompt("compact"))
        assert whole[2]["role"] == "user" and whole[2]["content"].startswith("Observation: ")
        ids = toy_tokenizer.apply_chat_template(whole, tokenize=True)["input_ids"]
        assert ids[:-1] == winner(search.tree).tokens()


def test_states_of_many_searches_are_valued_in_one_call(run):
    sizes = []

    def value(nodes):
        sizes.append(len({node.path()[0] for node in nodes}))
        return [0.5] * len(nodes)

    searched = run(value=value, searcher="fast_mcts")
    assert max(sizes) > 1
    assert sum(s.cost.value_calls for s in searched) == sum(len(list(s.tree.root.walk())) - 1 for s in searched)


class Raising:
    """An environment that fails on one question: with an exception, or as a graph that is down."""

    def __init__(self, env, bad, error):
        self.env, self.bad, self.error, self.role = env, bad, error, "tool"

    def reset(self, options):
        self.question = options["question"]
        return self.env.reset(options=options)

    def fork(self):
        twin = Raising(self.env.fork(), self.bad, self.error)
        twin.question = self.question
        return twin

    @property
    def waits(self):
        return False

    def step(self, text, truncated_turn=False):
        if self.question.id == self.bad:
            raise self.error
        return self.env.step(text, truncated_turn)

    def trajectory(self):
        return self.env.trajectory()


def test_an_exception_ends_its_own_question_alone(run, toy_env):
    whole = run(searcher="classic_mcts")
    rest = run(searcher="classic_mcts", make_env=lambda: Raising(toy_env(), "toy-2", ZeroDivisionError("of mine")))
    assert [s.trajectory.ending for s in rest].count("error") == 1
    failed = rest[1].trajectory
    assert failed.ending == "error" and failed.answer is None
    assert failed.extra["stopped"] == "error" and failed.extra["error"] == "ZeroDivisionError: of mine"
    assert [trees(rest)[i] for i in (0, 2, 3)] == [trees(whole)[i] for i in (0, 2, 3)]


@pytest.mark.parametrize("where", ["reset", "value", "engine"])
def test_wherever_it_is_raised(run, toy_env, toy_tokenizer, actor, toy_tasks, where):
    def make_env():
        env = toy_env()
        if where == "reset":
            reset = env.reset

            def failing(*, options):
                if options["question"].id == "toy-3":
                    raise OSError("gone")
                return reset(options=options)

            env.reset = failing
        return env

    def value(nodes):
        if where == "value" and any(node.episode.trajectory().question.id == "toy-3" for node in nodes):
            raise OSError("gone")
        return by_length(nodes)

    engine = ActorEngine(toy_tokenizer, actor)
    if where == "engine":
        add = engine.add

        def failing(key, *rest):
            if key[0] == 2 and key[1] > 3:  # some of its rows are open by then
                raise OSError("gone")
            add(key, *rest)

        engine.add = failing
    searched = run(make_env=make_env, value=value, engine=engine, searcher="fast_mcts")
    assert [s.trajectory.ending == "error" for s in searched] == [False, False, True, False]
    assert searched[2].trajectory.extra["error"] == "OSError: gone"
    whole = run(searcher="fast_mcts")
    assert [trees(searched)[i] for i in (0, 1, 3)] == [trees(whole)[i] for i in (0, 1, 3)]


@pytest.mark.parametrize("bad", [[], [1.0, float("nan")]])
def test_a_value_that_is_none_is_an_error_of_its_question(run, bad, toy_tasks):
    (search,) = run([toy_tasks[0][0]], value=lambda nodes: (bad * len(nodes))[: len(nodes)], searcher="fast_mcts")
    assert search.trajectory.ending == "error" and "value function" in search.trajectory.extra["error"]


def test_a_value_whose_server_is_gone_ends_the_run_and_a_refused_state_its_question(run, toy_tasks):
    def gone(nodes):
        raise UserError("no server at X; the same command goes on from where this one stopped")

    with pytest.raises(UserError, match="no server at X"):
        run(value=gone, searcher="fast_mcts")

    def refused(nodes):
        raise RequestRefused("too long", 400)

    (search,) = run([toy_tasks[0][0]], value=refused, searcher="fast_mcts")
    assert search.trajectory.extra["error"] == "RequestRefused: too long"


@pytest.mark.parametrize("status", ["kg_error", "kg_timeout"])
def test_a_graph_that_is_down_ends_the_question_and_a_timeout_its_branch(run, toy_env, toy_tasks, status):
    def make_env():
        env = toy_env()
        reset = env.reset

        def again(*, options):
            message = reset(options=options)
            if options["question"].id == "toy-1":
                _break_after_first_look(env, status)
            return message

        env.reset = again
        return env

    # no guess: an answer that was found would stand in spite of a query that timed out
    def act(text, draw):
        question, turns = next((q, turns) for q, turns in toy_tasks if q.text in text)
        return turns[min(text.count("<information>"), len(turns) - 1)]

    first, *others = run(make_env=make_env, act=act, searcher="fast_mcts")
    assert [s.trajectory.ending for s in others] != ["outage"] * 3
    assert first.trajectory.ending == "outage" and first.trajectory.answer is None
    assert first.trajectory.extra["outage"] == status.removeprefix("kg_")
    assert (first.tree.stopped == "outage") == (status == "kg_error")
    if status == "kg_timeout":
        assert first.trajectory.extra["endings"]["outage"] > 1


def _break_after_first_look(env, status):
    def raising(node, relations):
        raise KGUnavailable("down", status)

    class Toolbox:
        def __getattr__(self, name):
            return raising if name == "triples_at" else getattr(env.toolbox, name)

    env._session._toolbox = Toolbox()


@pytest.mark.parametrize(
    ("budget", "name"),
    [({"max_actor_calls": 13}, "actor_calls"), ({"max_tokens": 100}, "tokens"), ({"max_seconds": 0}, "seconds")],
)
@pytest.mark.parametrize("searcher", ["majority_vote", "classic_mcts", "fast_mcts"])
def test_a_budget_that_is_used_up_ends_the_search(run, searcher, budget, name):
    for search in run(act=lambda text, draw: "well...", searcher=searcher, **budget):
        assert search.trajectory.extra["stopped"] == name
        assert search.cost.actor_calls <= 15
        assert search.trajectory.ending == "budget" and search.trajectory.answer is None


def test_a_state_without_room_is_terminal(run, toy_tokenizer, toy_tasks):
    look = toy_tasks[0][1][0]
    engine = ActorEngine(toy_tokenizer, lambda text, draw: look, max_length=200)
    searched = run(engine=engine, act=None, searcher="majority_vote")
    for search in searched:
        assert search.trajectory.ending == "budget" and search.trajectory.extra["endings"] == {"length": 5}
        assert search.trajectory.turns[-1].observation == ""  # nobody saw it


def test_a_prompt_without_room_is_said_before_the_first_turn_and_costs_a_later_question_alone(
    run, toy_tokenizer, toy_tasks
):
    with pytest.raises(UserError, match="the prompt of question toy-1 takes .* allow more tokens an episode"):
        run(engine=ActorEngine(toy_tokenizer, None, max_length=10), searcher="linear")
    question, turns = toy_tasks[0]
    long = replace(question, id="long", text=question.text + " word" * 400)
    engine = ActorEngine(toy_tokenizer, lambda text, draw: turns[-1], max_length=400)
    first, later = run([question, long], engine=engine, act=None, searcher="linear")
    assert first.trajectory.ending == "answered" and later.trajectory.extra["stopped"] == "length"


def test_an_actor_that_never_is_done(run):
    looking = render_turn("Look.", "query", 'get_relations("France")')
    for search in run(act=lambda text, draw: looking, searcher="classic_mcts", max_depth=4, selections=3):
        assert search.trajectory.ending == "budget" and search.trajectory.answer is None
        assert set(search.trajectory.extra["endings"]) == {"depth"}


def test_waiting_on_a_network_changes_nothing(run, toy_env):
    threads = set()

    class Far(Raising):
        waits = True

        def fork(self):
            twin = Far(self.env.fork(), None, None)
            twin.question = self.question
            return twin

        def step(self, text, truncated_turn=False):
            threads.add(threading.current_thread())
            return super().step(text, truncated_turn)

    far = run(make_env=lambda: Far(toy_env(), None, None), searcher="classic_mcts")
    assert trees(far) == trees(run(searcher="classic_mcts"))
    assert threads and threading.main_thread() not in threads


def test_an_unknown_searcher(run):
    with pytest.raises(UserError, match="searcher: expected one of linear"):
        run(searcher="alpha")
