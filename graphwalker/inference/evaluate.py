"""Evaluation: questions through the rollout harness into ``trajectories.jsonl`` and ``metrics.json``.

An interrupted evaluation keeps its finished episodes beside the target and goes on from there. Every
episode has a random stream of its own, so the result is the same as without the interruption (up to
rounding: which episodes share a batch changes the last bits of their probabilities).
"""

import dataclasses
import hashlib
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, cast

from tqdm.auto import tqdm

from graphwalker.files import write_json, write_jsonl
from graphwalker.inference.chat_tokens import ChatTokens
from graphwalker.inference.engine import Engine, Sampling
from graphwalker.inference.partial import Partial, order_of
from graphwalker.inference.rollout import Start, run_episodes
from graphwalker.metrics.aggregate import score_run
from graphwalker.types import Question, Trajectory


def episode_seed(seed: int, question_id: str, sample: int) -> int:
    """A 63-bit seed for one episode, the same in every process and order."""
    digest = hashlib.sha256(f"{seed}\0{question_id}\0{sample}".encode()).digest()
    return int.from_bytes(digest[:8], "big") >> 1


def run_questions(
    questions: Sequence[Question],
    make_env: Callable[[], Any],
    engine: Engine,
    sampling: Sampling,
    *,
    samples: int = 1,
    seed: int = 0,
    skip: frozenset[tuple[str, int]] = frozenset(),
    progress: str | None = None,
) -> Iterator[Trajectory]:
    """Yield ``samples`` trajectories a question as they end; pairs (question id, sample) in ``skip`` are left out.

    ``progress`` names a progress bar with rate and estimate.
    """
    chat = ChatTokens(engine.tokenizer)

    def starts() -> Iterator[Start]:
        for question in questions:
            for sample in range(samples):
                if (question.id, sample) in skip:
                    continue
                env = make_env()
                prompt, _ = env.reset(options={"question": question})
                ids = chat.prompt([{"role": "user", "content": prompt}])
                yield Start((question.id, sample), env, ids, episode_seed(seed, question.id, sample))

    total = len(questions) * samples
    with tqdm(total=total, initial=len(skip), desc=progress, unit="episode", disable=progress is None) as bar:
        for rollout in run_episodes(starts(), engine, sampling):
            bar.update()
            _, sample = cast(tuple[str, int], rollout.key)
            yield dataclasses.replace(rollout.trajectory(), sample=sample)


def evaluate(
    questions: Sequence[Question],
    make_env: Callable[[], Any],
    engine: Engine,
    sampling: Sampling,
    out: Path,
    *,
    samples: int = 1,
    seed: int = 0,
    progress: str | None = None,
) -> dict[str, Any]:
    """Run the questions, write ``out/trajectories.jsonl`` and ``out/metrics.json``, return the metrics.

    Trajectories are in the order of the questions, then of the samples. Raises ``UserError`` when there
    are no questions, when two have one id, and when the folder cannot be written.
    """
    order = order_of(questions)
    partial = Partial(out)
    done = partial.read(order, samples)
    skip = frozenset((t.question.id, t.sample) for t in done)
    runs = run_questions(
        questions, make_env, engine, sampling, samples=samples, seed=seed, skip=skip, progress=progress
    )
    for trajectory in runs:
        partial.append(trajectory)
        done.append(trajectory)
    done.sort(key=lambda t: (order[t.question.id], t.sample))
    write_jsonl(Path(out) / "trajectories.jsonl", done)
    metrics = score_run(done, seed=seed)
    write_json(Path(out) / "metrics.json", metrics)
    partial.remove()
    return metrics
