"""The rollout harness: one loop that runs episodes for evaluation, for data and for GRPO.

Episodes enter the engine as rows become free and leave it as they end, so the batch stays full. The
environment never sees tokens, the engine never sees the KG; this loop alone carries text and ids
between them (GraphWalker, section 2.1: agent loop).

A step of an environment that waits on a network runs in a thread, beside the decoding of the other
rows. Its observation enters the engine a fixed number of engine steps later, however soon it came, so
that a run is the same every time.
"""

import dataclasses
from collections import deque
from collections.abc import Hashable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any, Protocol

from graphwalker.errors import UserError
from graphwalker.inference.chat_tokens import ChatTokens
from graphwalker.inference.engine import Completion, Engine, Sampling
from graphwalker.inference.turn_text import fit, room_for, turn_text
from graphwalker.types import Trajectory

StepResult = tuple[str, float, bool, bool, dict[str, Any]]


class Episode(Protocol):
    """What the harness asks of an environment (``envs.kg_env.KGEnv``), already reset.

    ``waits`` says that ``step`` may wait on a network; steps of different environments then run in threads.
    """

    @property
    def waits(self) -> bool: ...

    def step(self, text: str, truncated_turn: bool = False) -> StepResult: ...

    def trajectory(self) -> Trajectory: ...


@dataclass(frozen=True, slots=True)
class Start:
    """An episode to run: its key, its environment (reset), its prompt, and the seed of its random stream."""

    key: Hashable
    env: Episode
    prompt_ids: list[int]
    seed: int = 0


@dataclass(slots=True)
class Rollout:
    """A finished episode with its tokens.

    ``ids`` follow the prompt; ``mask`` is 1 on tokens the model generated and 0 on the environment's;
    ``logprobs`` are 0.0 where the mask is 0. The three have one length. ``cut`` holds what the model saw
    of the observations that did not fit, by turn.
    """

    key: Hashable
    env: Episode
    prompt_ids: list[int]
    ids: list[int] = field(default_factory=list)
    mask: list[int] = field(default_factory=list)
    logprobs: list[float] = field(default_factory=list)
    reward: float = 0.0
    turns: int = 0
    cut: dict[int, str] = field(default_factory=dict)

    def generated(self, done: Completion) -> None:
        self.turns += 1
        self._append(done.ids, 1, done.logprobs)

    def observed(self, ids: list[int]) -> None:
        self._append(ids, 0, [0.0] * len(ids))

    def _append(self, ids: list[int], made_by_model: int, logprobs: list[float]) -> None:
        self.ids += ids
        self.mask += [made_by_model] * len(ids)
        self.logprobs += logprobs

    def trajectory(self) -> Trajectory:
        """The episode's trajectory as the model saw it, with its token counts."""
        made = sum(self.mask)
        whole = self.env.trajectory()
        turns = (
            dataclasses.replace(turn, observation=self.cut.get(i, turn.observation))
            for i, turn in enumerate(whole.turns)
        )
        return dataclasses.replace(
            whole,
            turns=tuple(turns),
            prompt_tokens=len(self.prompt_ids),
            completion_tokens=made,
            observation_tokens=len(self.ids) - made,
        )


def run_episodes(
    starts: Iterable[Start],
    engine: Engine,
    sampling: Sampling,
    *,
    max_observation_tokens: int = 2048,
    network_delay: int = 4,
) -> Iterator[Rollout]:
    """Run episodes to their end; yields each as it ends (in no fixed order, but the same one every time).

    ``starts`` is consumed as rows become free, so a generator may make environments late. An
    observation over ``max_observation_tokens``, or over what is left of the row, is cut visibly; where
    nothing is left, the episode ends. What an environment that waits on a network observes is taken
    ``network_delay`` engine steps later. Raises ``UserError`` for a prompt that fills its row.
    """
    chat = ChatTokens(engine.tokenizer)
    waiting = iter(starts)
    running: dict[Hashable, Rollout] = {}
    asked: deque[_Asked] = deque()
    exhausted, now = False, 0
    with ThreadPoolExecutor(engine.capacity, "episode") as threads:  # starts none until it is used
        while running or not exhausted:
            while not exhausted and len(running) < engine.capacity:
                start = next(waiting, None)
                if start is None:
                    exhausted = True
                    break
                check_room(f"episode {start.key}", start.prompt_ids, engine)
                running[start.key] = Rollout(start.key, start.env, start.prompt_ids)
                engine.add(start.key, start.prompt_ids, sampling, start.seed)
            now += 1
            for done in engine.step() if len(running) > len(asked) else ():
                rollout = running[done.key]
                asked.append(_ask(rollout, done, engine, now + network_delay, threads))
            while asked and (asked[0].due <= now or len(asked) == len(running)):
                turn = asked.popleft()
                if _advance(turn, engine, chat, sampling, max_observation_tokens):
                    engine.release(turn.done.key)
                    yield running.pop(turn.done.key)


@dataclass(frozen=True, slots=True)
class _Asked:
    """A finished turn and what its environment says to it, from engine step ``due`` on."""

    rollout: Rollout
    done: Completion
    result: "Future[StepResult] | StepResult"
    due: int


def _ask(rollout: Rollout, done: Completion, engine: Engine, due: int, threads: ThreadPoolExecutor) -> _Asked:
    """Give a finished turn to its environment."""
    rollout.generated(done)
    text = turn_text(engine.tokenizer, done)
    if rollout.env.waits:
        return _Asked(rollout, done, threads.submit(rollout.env.step, text, truncated_turn=not done.stopped), due)
    return _Asked(rollout, done, rollout.env.step(text, truncated_turn=not done.stopped), 0)


def check_room(of: str, prompt_ids: Sequence[int], engine: Engine) -> None:
    """Raise ``UserError`` for a prompt after which no turn has room; ``of`` says whose it is."""
    if len(prompt_ids) >= engine.max_length:
        raise UserError(
            f"the prompt of {of} takes {len(prompt_ids)} tokens, and prompt, turns and observations together may take "
            f"{engine.max_length}: allow more tokens an episode, or choose a shorter prompt (prompt: compact)"
        )


def _advance(turn: _Asked, engine: Engine, chat: ChatTokens, sampling: Sampling, max_tokens: int) -> bool:
    """Give an observation to the engine; True when the episode is over."""
    rollout, done = turn.rollout, turn.done
    result = turn.result.result() if isinstance(turn.result, Future) else turn.result
    observation, rollout.reward, terminated, truncated, _ = result
    if terminated or truncated:
        return True
    taken = len(rollout.prompt_ids) + len(rollout.ids)
    seen, ids = fit(observation, chat, room_for(engine, taken, sampling, max_tokens), stopped=done.stopped)
    if seen != observation:
        rollout.cut[rollout.turns - 1] = seen
        if not ids:
            return True  # the row is full: the episode ends out of budget
    rollout.observed(ids)
    engine.add(done.key, ids, sampling, 0)
    return False
