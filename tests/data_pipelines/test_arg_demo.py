"""ArG's texts on the demo's folder are made once, and again when what they are made from changes."""

import json
import shutil

from data_pipelines.arg_demo import prepare_arg_demo
from graphwalker.files import read_jsonl, write_jsonl
from graphwalker.protocol.reflection_data import ReflectionRecord
from graphwalker.types import Entity, Question, Trajectory


def _question(text: str, answer: str) -> Question:
    return Question(text, text, (Entity("France", "m.fr"),), (Entity("A", answer),))


def test_texts_are_made_once_and_again_for_other_questions_or_another_graph(tmp_path, toy_kg):
    out = tmp_path / "arg.jsonl"
    write_jsonl(tmp_path / "train.jsonl", [_question("capital", "m.paris")])
    write_jsonl(tmp_path / "graphsynth.jsonl", [Trajectory(_question(text, "m.lyon")) for text in ("b", "c")])

    kg = shutil.copytree(toy_kg, tmp_path / "kg")

    def made() -> list[str]:
        prepare_arg_demo(tmp_path, kg, synth=1, progress=False)
        return list(dict.fromkeys(record.question.id for record in read_jsonl(out, ReflectionRecord)))

    assert made() == ["capital", "b"]
    before = out.stat().st_mtime_ns
    assert made() == ["capital", "b"] and out.stat().st_mtime_ns == before
    write_jsonl(tmp_path / "train.jsonl", [_question("other", "m.paris")])
    assert made() == ["other", "b"]
    before = out.stat().st_mtime_ns
    meta = json.loads((kg / "meta.json").read_text())
    (kg / "meta.json").write_text(json.dumps({**meta, "source": "another"}))
    assert made() == ["other", "b"] and out.stat().st_mtime_ns != before
