"""The watch of tests/benchmarks/bench_grpo.py: a part's time is without that of the parts inside it."""

import importlib.util
import sys
from pathlib import Path

import pytest

BENCHMARKS = Path(__file__).parents[1] / "benchmarks"


@pytest.fixture
def watch_class(monkeypatch):
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    spec = importlib.util.spec_from_file_location("bench_grpo", BENCHMARKS / "bench_grpo.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    yield module.Watch
    sys.modules.pop("demo_episodes", None)


def test_a_parts_time_is_without_the_parts_inside(watch_class):
    times = iter([0, 10, 11, 13, 20, 24, 100])
    watch = watch_class(lambda: next(times))
    with watch.of("step"):
        with watch.of("loss"):
            pass
        with watch.of("loss"):
            pass
    assert dict(watch.seconds) == {"outside": 10, "step": 1 + 7 + 76, "loss": 2 + 4}
