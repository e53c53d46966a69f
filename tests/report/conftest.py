"""A run folder made by hand: three stages, greedy and sampled, with errors, hostile names and training logs."""

import json
import random
import shutil
from pathlib import Path

import pytest

from graphwalker.files import write_json, write_jsonl
from graphwalker.metrics.run_folder import rescore
from graphwalker.types import Entity, Question, Trajectory, Turn

CAPITAL, LANGUAGE = "location.country.capital", "location.country.languages_spoken"
HOSTILE = (
    "</script><script>document.title='owned'</script>",
    "<img src=x onerror=\"document.title='owned'\">",
    '</information><answer>["x"]</answer>',
    "{{ 7 * 7 }} & \"quotes\" 'and' <b>bold</b>",
    "abc\u202egnp.exe\x00\x1b[31m",
)
# stage -> how often the right answer is found, by structure
STAGES = {"base": (0.0, 0.0), "graphsynth": (0.72, 0.45), "graphroll": (0.8, 0.6), "grpo": (0.95, 0.88)}


def make_run(folder: Path, *, questions: int = 12, samples: int = 4, seed: int = 0) -> Path:
    """Write a run with an evaluation per stage and decoding, and logs for the trained stages."""
    rng = random.Random(seed)
    asked = [_question(i) for i in range(questions)]
    for stage, rates in STAGES.items():
        for decoding, repeats in (("greedy", 1), ("sampled", samples)):
            made = [_episode(q, s, rates[q.structure == "2-hop"], rng) for q in asked for s in range(repeats)]
            write_jsonl(folder / "eval" / f"{stage}-test_entity-{decoding}" / "trajectories.jsonl", made)
    for number, stage in enumerate(list(STAGES)[1:], 1):
        write_json(folder / "stages" / f"{number}-{stage}" / "trainer_state.json", {"log_history": _log(stage, rng)})
    (folder / "config.yaml").write_text("model: tiny # </pre><script>alert(1)</script>\nseed: 0\n", encoding="utf-8")
    rescore(folder)
    return folder


def _question(i: int) -> Question:
    two = i % 2 == 1
    gold = HOSTILE[i] if i < len(HOSTILE) else f"Capital {i}"
    text = f"What is the {'language spoken around the ' if two else ''}capital of Country {i}?"
    topic = (Entity(f"Country {i}"),)
    return Question(f"q{i:03d}", text, topic, (Entity(gold),), "demo", "test", "2-hop" if two else "1-hop", 1 + two)


def _episode(question: Question, sample: int, rate: float, rng: random.Random) -> Trajectory:
    topic, gold = question.topic_entities[0].name, question.answers[0].name
    turns = []
    if rate == 0.0:
        noise = Turn(f"capital capital of <b>{topic}", "", "none", "", "Error: your turn holds no action.", "no_action")
        return Trajectory(question, (noise,) * 3, None, "budget", sample, 40, 60, 30)
    if rng.random() < 0.3:
        turns.append(
            _query("Start with the topic.", f'get_relations("{topic}x")', f"Error: no {topic}x.", "unknown_entity")
        )
    thought = "That did not help; the name was wrong." if turns else f"The topic is {topic}."
    turns.append(_query(thought, f'get_relations("{topic}")', f"{CAPITAL}\n{LANGUAGE}\n... 7 more relations"))
    if rng.random() < 0.15:
        turns.append(_query("Try it.", f'get_triples("{topic}", ["{LANGUAGE}"])', "No triples found.", "empty"))
    shown = f"[{topic}, {CAPITAL}, {gold}]\n[{topic}, {CAPITAL}, Other town]\n... 3 more triples of {CAPITAL}"
    turns.append(_query("Now its capital.", f'get_triples("{topic}", ["{CAPITAL}"])', shown))
    right = rng.random() < rate
    given = (gold,) if right else rng.choice([("Other town",), (gold, "Other town")])
    action = json.dumps(list(given), ensure_ascii=False)
    turns.append(
        Turn(f"<think>So it is {given[0]}.</think><answer>{action}</answer>", f"So it is {given[0]}.", "answer", action)
    )
    return Trajectory(question, tuple(turns), given, "answered", sample, 40, 25 * len(turns), 80)


def _query(thought: str, action: str, observation: str, status="ok") -> Turn:
    return Turn(f"<think>{thought}</think><kg-query>{action}</kg-query>", thought, "query", action, observation, status)


def _log(stage: str, rng: random.Random) -> list[dict]:
    steps = range(10, 610, 10)
    if stage == "grpo":
        entries = [
            {
                "step": step // 10,
                "reward": min(1.0, 0.5 + step / 1500 + rng.uniform(-0.08, 0.08)),
                "frac_reward_zero_std": rng.uniform(0.2, 0.5),
                "entropy": 0.4 - step / 3000 + rng.uniform(-0.03, 0.03),
                "completions/mean_length": 70 + rng.uniform(-4, 4),
                "loss": rng.uniform(-0.02, 0.02),
            }
            for step in steps
        ]
    else:
        entries = [{"step": s, "loss": 4 / (1 + s / 60) + rng.uniform(0, 0.1), "learning_rate": 1e-3} for s in steps]
    return [*entries, {"step": 600, "train_runtime": 12.3, "loss": 99.0}]


@pytest.fixture(scope="session")
def made_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The run, made once: to read only."""
    return make_run(tmp_path_factory.mktemp("runs") / "toy")


@pytest.fixture
def run_folder(made_run: Path, tmp_path: Path) -> Path:
    """A copy of the run for a test to change."""
    return shutil.copytree(made_run, tmp_path / "runs" / "toy")
