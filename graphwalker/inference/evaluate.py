"""Evaluation: questions through the rollout harness into ``trajectories.jsonl`` and ``metrics.json``.

An interrupted evaluation keeps its finished episodes beside the target and goes on from there; since
every episode has a random stream of its own, the result is the same as without the interruption.
"""

import dataclasses
import hashlib
import json
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from tqdm.auto import tqdm

from graphwalker.files import read_jsonl, write_json, write_jsonl
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
            yield dataclasses.replace(rollout.trajectory(), sample=rollout.key[1])


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

    Trajectories are in the order of the questions, then of the samples. Raises ``UserError`` when the
    folder cannot be written.
    """
    order = {question.id: i for i, question in enumerate(questions)}
    partial = Path(out) / "trajectories.partial.jsonl"
    done = _finished(partial, order, samples)
    partial.parent.mkdir(parents=True, exist_ok=True)
    skip = frozenset((t.question.id, t.sample) for t in done)
    with open(partial, "a", encoding="utf-8") as handle:
        runs = run_questions(
            questions, make_env, engine, sampling, samples=samples, seed=seed, skip=skip, progress=progress
        )
        for trajectory in runs:
            done.append(trajectory)
            handle.write(json.dumps(trajectory.to_json(), ensure_ascii=False) + "\n")
            handle.flush()
    done.sort(key=lambda t: (order[t.question.id], t.sample))
    write_jsonl(Path(out) / "trajectories.jsonl", done)
    metrics = score_run(done, seed=seed)
    write_json(Path(out) / "metrics.json", metrics)
    partial.unlink()
    return metrics


def _finished(partial: Path, order: dict[str, int], samples: int) -> list[Trajectory]:
    """Episodes of an interrupted run; a last line that was cut mid-write is dropped."""
    if not partial.exists():
        return []
    lines = partial.read_text(encoding="utf-8").split("\n")
    partial.write_text("".join(line + "\n" for line in lines[:-1]), encoding="utf-8")
    found = {(t.question.id, t.sample): t for t in read_jsonl(partial, Trajectory)}
    return [t for (question, sample), t in found.items() if question in order and sample < samples]
