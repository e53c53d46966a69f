"""Tree search over many questions at once, on one engine (MCTS-KBQA, section 3; ArG, Algorithm 1).

Every turn that a searcher asks for is a row of the engine; rows are refilled as they end, from whichever search has
turns to sample, and a question's search begins when rows would stay empty. Environments that wait on a network step in
threads, and the states of all searches are valued in one call, as are their claims judged. A search is the same alone
or among others, up to rounding; what goes wrong in one ends that one.
"""

import math
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import Any

from graphwalker.errors import UserError
from graphwalker.inference.asking import Asking
from graphwalker.inference.chat_tokens import ChatTokens, Role
from graphwalker.inference.engine import BranchingEngine, Completion, Engine, Sampling
from graphwalker.inference.judging import Judging
from graphwalker.inference.labels import Labeller
from graphwalker.inference.question_search import QuestionSearch, Sample, Searched
from graphwalker.inference.rollout import check_room
from graphwalker.inference.search_nodes import Stepped, make_node, step
from graphwalker.inference.turn_text import room_for, turn_text
from graphwalker.search.node import Node
from graphwalker.search.requests import Value
from graphwalker.search.searchers import find_searcher
from graphwalker.search.settings import SearchConfig
from graphwalker.tools.chat_server import RequestRefused
from graphwalker.types import Question

SCORE_SHARE = 2  # states are valued once one search in so many waits for it, or when nothing else can go on


def run_searches(
    questions: Iterable[Question],
    make_env: Callable[[], Any],
    engine: Engine,
    value: Value,
    config: SearchConfig,
    sampling: Sampling,
    *,
    seed: int = 0,
    labeller: Labeller | None = None,
    at_a_time: int | None = None,
    max_observation_tokens: int = 2048,
    network_delay: int = 4,
) -> Iterator[Searched]:
    """Search every question's tree; yields each as it ends, in no fixed order.

    ``sampling``'s temperature is taken from the config. ``labeller`` judges for the searchers that ask for labels
    (`graphwalker.search.searchers.REFLECTIVE`). ``at_a_time`` is the number of searches that may be under way
    (default: as many as the engine has rows). Observations are cut as in `rollout.run_episodes`; a state that leaves
    no room for a turn is terminal (``limit`` "length"). An exception of an environment, the searcher or the value
    function ends its question with the ending ``error``; one of the engine as a whole is raised. Raises ``UserError``
    for an unknown searcher, a prompt of the first question after which no turn has room, and where what values or
    judges says that it is gone for good.
    """
    searcher = find_searcher(config.searcher)
    sampling = replace(sampling, temperature=config.search_temperature)
    with ThreadPoolExecutor(engine.capacity, "search") as threads:  # starts none until it is used
        judging = Judging(labeller, sequence="sequence" in config.arg_scores) if labeller is not None else None
        loop = _Loop(engine, sampling, value, judging, threads, max_observation_tokens, network_delay)
        waiting = enumerate(questions)
        exhausted = False
        while True:
            while not exhausted and len(loop.running) < (at_a_time or engine.capacity) and loop.has_free_rows():
                index, question = next(waiting, (0, None))
                if question is None:
                    exhausted = True
                else:
                    search = _start(index, question, make_env, loop, searcher, config, seed)
                    if index == 0:  # what is too long for the first is mostly too long for all
                        check_room(f"question {question.id}", search.root.ids, engine)
                    loop.begin(search)
            if not loop.running:
                return
            loop.turn()
            yield from loop.take_finished()


def _start(
    index: int,
    question: Question,
    make_env: Callable[[], Any],
    loop: "_Loop",
    searcher: Any,
    config: SearchConfig,
    seed: int,
) -> QuestionSearch:
    """A question's search at its root; one that cannot begin is over."""
    env = None
    try:
        env = make_env()
        prompt, _ = env.reset(options={"question": question})
        root = Node(env, ids=loop.chat_for(env).prompt([{"role": "user", "content": prompt}]))
        if len(root.ids) >= loop.engine.max_length:
            root.ending, root.limit = "budget", "length"
    except Exception as error:
        search = QuestionSearch(index, question, Node(env), searcher, config, seed)  # type: ignore[arg-type]
        search.fail(error)
        return search
    return QuestionSearch(index, question, root, searcher, config, seed)


@dataclass(frozen=True, slots=True)
class _Asked:
    """A finished turn and what its environment says to it, from engine step ``due`` on."""

    sample: Sample
    done: Completion
    result: "Future[Stepped] | Stepped"
    due: int


class _Loop:
    """The searches under way and the turns between them, the engine and the environments."""

    def __init__(
        self,
        engine: Engine,
        sampling: Sampling,
        value: Value,
        judging: Judging | None,
        threads: ThreadPoolExecutor,
        max_tokens: int,
        network_delay: int,
    ):
        self.engine, self.sampling, self.value, self.threads = engine, sampling, value, threads
        self.max_tokens, self.network_delay = max_tokens, network_delay
        self.branching = engine if isinstance(engine, BranchingEngine) else None
        self.running: list[QuestionSearch] = []
        self.queue: deque[Sample] = deque()  # turns that no row samples yet
        self.rows: dict[Any, Sample] = {}  # turns that the engine samples
        self.asked: deque[_Asked] = deque()  # turns that the environments answer
        self.now = 0
        self._chats: dict[Role, ChatTokens] = {}
        self.asking = Asking(engine.tokenizer, self.chat_for, sampling, judging, threads, network_delay)

    def chat_for(self, env: Any) -> ChatTokens:
        role: Role = env.role
        return self._chats.setdefault(role, ChatTokens(self.engine.tokenizer, role=role))

    def has_free_rows(self) -> bool:
        """Whether rows would stay empty with the turns that are waiting."""
        return len(self.rows) + len(self.queue) < self.engine.capacity

    def begin(self, search: QuestionSearch) -> None:
        self.running.append(search)
        if not search.over:
            self.queue.extend(search.begin())

    def turn(self) -> None:
        """Go on with whatever can: rows, then observations, then values."""
        self.queue.extend(self.asking.answer(self.running, self.now))
        self._fill_rows()
        self.now += 1
        if self.rows:
            self._decode()
        self.queue.extend(self.asking.due(self.now, idle=not (self.rows or self.queue or self.asked)))
        while self.asked and (self.asked[0].due <= self.now or not (self.rows or self.queue)):
            self._observe(self.asked.popleft())
        scoring = [search for search in self.running if search.scoring]
        if self._is_time_to_read(scoring):
            self._score(scoring)
        judging = [search for search in self.running if search.judging]
        if self._is_time_to_read(judging):
            self.queue.extend(self.asking.judge(judging))

    def _is_time_to_read(self, waiting: Sequence[QuestionSearch]) -> bool:
        """Whether enough searches wait for a pass over their states, or nothing else can go on."""
        others = self.rows or self.queue or self.asked or self.asking.consulted
        return bool(waiting) and (SCORE_SHARE * len(waiting) >= len(self.running) or not others)

    def take_finished(self) -> list[Searched]:
        finished = [search for search in self.running if search.over]
        if finished:
            self.running = [search for search in self.running if not search.over]
        return [search.result() for search in finished]

    def _fill_rows(self) -> None:
        while self.queue and len(self.rows) < self.engine.capacity:
            siblings = self._next_siblings(self.engine.capacity - len(self.rows))
            if not siblings:
                continue
            search, parent = siblings[0].search, siblings[0].parent
            tokens, seeds = parent.tokens(), [search.seed_of(sample) for sample in siblings]
            try:
                if siblings[0].claim is not None:
                    self._open_writing(siblings[0])
                    continue
                sampling = self.asking.sampling_for(parent.episode)
                if self.branching is not None:
                    keys = [sample.key for sample in siblings]
                    self.branching.branch(search.key_of(parent.number), keys, tokens, sampling, seeds)
                    self._opened(siblings)
                    continue
                for sample, seed in zip(siblings, seeds, strict=True):
                    self.engine.add(sample.key, tokens, sampling, seed)
                    self._opened([sample])
            except Exception as error:
                self._fail(search, error)

    def _open_writing(self, sample: Sample) -> None:
        """Start a row that goes on from a claim; nothing is written where there is no room."""
        ids, sampling = self.asking.opening(sample)
        if len(ids) >= self.engine.max_length:
            self.queue.extend(sample.search.wrote(sample, self.asking.written(sample, None)))
            return
        self.engine.add(sample.key, ids, sampling, 0)
        self._opened([sample])

    def _opened(self, samples: Sequence[Sample]) -> None:
        for sample in samples:
            self.rows[sample.key] = sample
            sample.search.rows.add(sample.key)

    def _next_siblings(self, most: int) -> list[Sample]:
        """The next waiting turns of one state, at most so many; none where their search is over."""
        first = self.queue.popleft()
        siblings = [first]
        while len(siblings) < most and not first.claim and self.queue and self.queue[0].parent is first.parent:
            siblings.append(self.queue.popleft())
        return [] if first.search.over else siblings

    def _decode(self) -> None:
        """One step of the engine; its time is shared by the rows at work."""
        began = time.perf_counter()
        finished = self.engine.step()
        share = (time.perf_counter() - began) / len(self.rows)
        for sample in self.rows.values():
            sample.search.cost.seconds += share
        for done in finished:
            if done.key not in self.rows:  # another row of its search had an error
                continue
            sample = self.rows[done.key]
            if done.error is not None:
                self._fail(sample.search, done.error)
                continue
            if sample.claim is not None:
                self._close_row(sample)
                sample.search.cost.tokens += len(done.ids)
                self.queue.extend(sample.search.wrote(sample, self.asking.written(sample, done)))
                continue
            asked = self._ask(sample, done)
            ends = isinstance(asked.result, Stepped) and asked.result.over
            self._close_row(sample, park=not ends)
            self.asked.append(asked)

    def _close_row(self, sample: Sample, *, park: bool = False) -> None:
        if park and self.branching is not None:
            self.branching.park(sample.key)  # the state may be expanded
        else:
            self.engine.release(sample.key)
        del self.rows[sample.key]
        sample.search.rows.discard(sample.key)

    def _ask(self, sample: Sample, done: Completion) -> _Asked:
        """Give a finished turn to its environment."""
        sample.search.cost.tokens += len(done.ids)
        turn = (sample.parent.episode, turn_text(self.engine.tokenizer, done), not done.stopped)
        if sample.parent.episode.waits:
            return _Asked(sample, done, self.threads.submit(step, *turn), self.now + self.network_delay)
        return _Asked(sample, done, step(*turn), 0)

    def _observe(self, asked: _Asked) -> None:
        """Make a node of a turn and what was observed, and give it to its search."""
        search = asked.sample.search
        stepped = asked.result.result() if isinstance(asked.result, Future) else asked.result
        search.cost.seconds += stepped.seconds
        if search.over:
            return
        if stepped.error is not None:
            self._fail(search, stepped.error)
            return
        try:
            node = self._node(asked.sample, asked.done, stepped)
        except Exception as error:
            self._fail(search, error)
            return
        self.queue.extend(search.took(asked.sample, node))
        if search.over:
            self._drop_rows(search)

    def _node(self, sample: Sample, done: Completion, stepped: Stepped) -> Node:
        parent = sample.parent
        room = room_for(self.engine, len(parent.tokens()) + len(done.ids), self.sampling, self.max_tokens)
        return make_node(parent, sample.number, done, stepped, self.chat_for(parent.episode), room)

    def _score(self, searches: Sequence[QuestionSearch]) -> None:
        """Value the states of all searches in one call; where that fails, of each by itself."""
        nodes = [list(search.scoring.nodes) if search.scoring else [] for search in searches]
        try:
            values = self._values(searches, [node for group in nodes for node in group])
        except Exception as error:
            if isinstance(error, UserError) and not isinstance(error, RequestRefused):
                raise  # whatever values, such as a server, is gone for all
            if len(searches) == 1:
                self._fail(searches[0], error)
                return
            for search in searches:
                self._score([search])
            return
        begin = 0
        for search, group in zip(searches, nodes, strict=True):
            self.queue.extend(search.scored(values[begin : begin + len(group)]))
            begin += len(group)

    def _values(self, searches: Sequence[QuestionSearch], nodes: Sequence[Node]) -> list[float]:
        began = time.perf_counter()
        values = [float(value) for value in self.value(nodes)]
        share = (time.perf_counter() - began) / max(1, len(nodes))
        if len(values) != len(nodes):
            raise ValueError(f"the value function gave {len(values)} values for {len(nodes)} states")
        if not all(map(math.isfinite, values)):
            raise ValueError("the value function gave a value that is no finite number")
        for search in searches:
            seconds = share * len(search.scoring.nodes if search.scoring else ())
            search.cost.seconds += seconds
            search.cost.value_seconds += seconds
        return values

    def _fail(self, search: QuestionSearch, error: Exception) -> None:
        search.fail(error)
        self._drop_rows(search)

    def _drop_rows(self, search: QuestionSearch) -> None:
        for key in sorted(search.rows):
            self._close_row(self.rows[key])
