"""Evaluation: questions through the rollout harness into ``trajectories.jsonl`` and ``metrics.json``.

An interrupted evaluation keeps its finished episodes beside the target and goes on from there. Every
episode has a random stream of its own, so the result is the same as without the interruption (up to
rounding: which episodes share a batch changes the last bits of their probabilities).
"""

import dataclasses
import hashlib
import json
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, cast

from tqdm.auto import tqdm

from graphwalker.errors import UserError
from graphwalker.files import atomic_write, read_jsonl, write_json, write_jsonl
from graphwalker.inference.chat_tokens import ChatTokens
from graphwalker.inference.engine import Engine, Sampling
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
    order = {question.id: i for i, question in enumerate(questions)}
    if not questions or len(order) < len(questions):
        repeated = Counter(question.id for question in questions).most_common(1)
        raise UserError(f"question id {repeated[0][0]!r} occurs twice" if repeated else "no questions to evaluate on")
    partial = Path(out) / "trajectories.partial.jsonl"
    done = _finished(partial, order, samples)
    skip = frozenset((t.question.id, t.sample) for t in done)
    runs = run_questions(
        questions, make_env, engine, sampling, samples=samples, seed=seed, skip=skip, progress=progress
    )
    for trajectory in runs:
        _append(partial, trajectory)
        done.append(trajectory)
    done.sort(key=lambda t: (order[t.question.id], t.sample))
    write_jsonl(Path(out) / "trajectories.jsonl", done)
    metrics = score_run(done, seed=seed)
    write_json(Path(out) / "metrics.json", metrics)
    partial.unlink(missing_ok=True)
    return metrics


def _append(partial: Path, trajectory: Trajectory) -> None:
    try:
        partial.parent.mkdir(parents=True, exist_ok=True)
        with open(partial, "a", encoding="utf-8") as handle:
            handle.write(json.dumps(trajectory.to_json(), ensure_ascii=False) + "\n")
    except OSError as error:
        raise UserError(
            f"cannot write {partial}: {error.strerror or error}; the episodes in it are kept, and the same command "
            "goes on from there"
        ) from error


def _finished(partial: Path, order: dict[str, int], samples: int) -> list[Trajectory]:
    """Episodes of an interrupted run; a last line that was cut mid-write is dropped."""
    if not partial.exists():
        return []
    *whole, rest = partial.read_bytes().split(b"\n")
    if rest:
        with atomic_write(partial, "wb") as handle:
            handle.writelines(line + b"\n" for line in whole)
    found = {(t.question.id, t.sample): t for t in read_jsonl(partial, Trajectory)}
    return [t for (question, sample), t in found.items() if question in order and sample < samples]
