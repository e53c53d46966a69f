"""What a run shows elsewhere: Weights & Biases, offline where there is no key, or TensorBoard.

The trainers' curves go there by transformers' own ``report_to``. Each stage of a curriculum is a W&B run of its own; at
its end the curriculum is one more, in the same group, with the config, the metrics of every evaluation, a table of
episodes and the report page.
"""

import netrc
import os
import uuid
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, is_dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any
from urllib.parse import urlparse

from transformers import TrainerCallback

from graphwalker.errors import UserError
from graphwalker.metrics.run_folder import Evaluation, evaluations
from graphwalker.report.episodes import EpisodeView, choose, view
from graphwalker.report.page import REPORT
from graphwalker.report.stages import scores_of
from graphwalker.types import Trajectory

PROJECT = "graphwalker"
EPISODES = 8  # of each evaluation in the table
COLUMNS = ("stage", "split", "decoding", "question", "gold", "answer", "verdict", "ending", "turns", "episode")
PACKAGES = ("wandb", "tensorboard")  # each is also the name of the extra that brings it


def names(report_to: Iterable[str] | str | None) -> list[str]:
    """``report_to`` as a list, whatever a config has there."""
    return [report_to] if isinstance(report_to, str) else list(report_to or ())


def prepare(report_to: Iterable[str] | str | None) -> None:
    """Check what is reported to; without a key for W&B its runs stay in ``wandb/`` on this machine, and a line says so.

    Raises ``UserError`` where the package is not installed.
    """
    wanted = names(report_to)
    for name in PACKAGES:
        if name in wanted and find_spec(name) is None:
            raise UserError(
                f"report_to: {name}: not installed: pip install 'graphwalker-kgqa[{name}]', or report_to: none"
            )
    if "wandb" in wanted:
        os.environ.setdefault("WANDB_PROJECT", PROJECT)
        if "WANDB_MODE" not in os.environ and not _has_key():
            os.environ["WANDB_MODE"] = "offline"
            if os.environ.get("LOCAL_RANK", "0") == "0":
                print("W&B: no key, so runs stay in wandb/ on this machine; `wandb sync` sends them")


def _has_key() -> bool:
    """Whether W&B would find credentials, without asking its server."""
    if any(os.environ.get(name) for name in ("WANDB_API_KEY", "WANDB_IDENTITY_TOKEN_FILE")):
        return True
    import wandb  # seconds, and only for runs that report to it

    host = urlparse(wandb.Settings().base_url).netloc
    for path in (os.environ.get("NETRC"), "~/.netrc", "~/_netrc"):
        try:
            if path and netrc.netrc(os.path.expanduser(path)).authenticators(host):
                return True
        except (OSError, netrc.NetrcParseError):
            continue
    return False


def stage_environment(run: Path, stage: str, recipe: str, folder: Path) -> dict[str, str]:
    """The environment of the process that trains a stage: a W&B run of its own, which goes on when the stage does."""
    env = {key: value for key, value in os.environ.items() if key not in ("WANDB_RUN_ID", "WANDB_SWEEP_ID")}
    env |= {"WANDB_RUN_GROUP": run.name, "WANDB_NAME": f"{run.name}: {stage}", "WANDB_JOB_TYPE": recipe}
    return env | {"WANDB_RUN_ID": _run_id(folder), **_resume()}


def _run_id(folder: Path) -> str:
    """A W&B id that stays with a folder."""
    file = folder / "wandb_run_id"
    if not file.is_file():
        folder.mkdir(parents=True, exist_ok=True)
        file.write_text(uuid.uuid4().hex[:8])
    return file.read_text().strip()


def _resume() -> dict[str, str]:
    return {} if os.environ.get("WANDB_MODE") == "offline" else {"WANDB_RESUME": "allow"}


class ConfigCallback(TrainerCallback):
    """Adds a recipe's own settings to the config of the W&B run that transformers has started."""

    def __init__(self, configs: Sequence[Any]):
        own = [config for config in configs if is_dataclass(config) and not isinstance(config, type)]
        self.values = {key: value for config in own for key, value in asdict(config).items()}

    def on_train_begin(self, args, state, control, **kwargs):
        if "wandb" in args.report_to and state.is_world_process_zero:
            import wandb

            if wandb.run is not None:
                wandb.run.config.update(self.values, allow_val_change=True)


def log_run(run: Path, report_to: Iterable[str], config: Mapping[str, Any]) -> None:
    """Show a finished curriculum where its stages were shown."""
    if "wandb" in report_to:
        _to_wandb(run, config)
    if "tensorboard" in report_to:
        _to_tensorboard(run)


def final_metrics(run: Path) -> dict[str, float]:
    """``final/SPLIT/DECODING/METRIC`` of the last stage: what a sweep compares."""
    found = evaluations(run)
    last = [evaluation for evaluation in found if evaluation.stage == found[-1].stage]
    return {f"final/{name}": value for evaluation in last for name, value in _metrics(evaluation).items()}


def _metrics(evaluation: Evaluation) -> dict[str, float]:
    found = evaluation.metrics()["overall"]["metrics"]
    prefix = f"{evaluation.split}/{evaluation.decoding}"
    return {f"{prefix}/{name}": of["value"] for name, of in found.items() if of["value"] is not None}


def _stages(run: Path) -> dict[str, list[Evaluation]]:
    stages: dict[str, list[Evaluation]] = {}
    for evaluation in evaluations(run):
        stages.setdefault(evaluation.stage, []).append(evaluation)
    return stages


def _to_wandb(run: Path, config: Mapping[str, Any]) -> None:
    import wandb

    agent = "WANDB_SWEEP_ID" in os.environ  # then the run's id, and whether it is resumed, are the agent's
    own: dict[str, Any] = (
        {} if agent else {"id": _run_id(run), "name": run.name, "resume": "allow" if _resume() else None}
    )
    with wandb.init(job_type="curriculum", group=run.name, config=dict(config), **own) as tracked:
        tracked.define_metric("*", step_metric="stage")
        for number, (stage, found) in enumerate(_stages(run).items(), 1):
            values = {name: value for evaluation in found for name, value in _metrics(evaluation).items()}
            tracked.log({"stage": number, "stage_name": stage, **values})
        rows = [_row(shown) for found in _stages(run).values() for e in found for shown in _episodes(e)]
        tracked.log({"episodes": wandb.Table(columns=list(COLUMNS), data=rows), **final_metrics(run)})
        page = wandb.Artifact(f"report-{tracked.id}", type="report")
        page.add_file(str(run / REPORT))
        tracked.log_artifact(page)


def _to_tensorboard(run: Path) -> None:
    from torch.utils.tensorboard import SummaryWriter

    with SummaryWriter(str(run / "tensorboard")) as writer:
        for number, found in enumerate(_stages(run).values(), 1):
            for evaluation in found:
                for name, value in _metrics(evaluation).items():
                    writer.add_scalar(name, value, number)
                text = "\n\n".join(
                    f"**{e.question}** {e.verdict}\n\n```\n{_text(e)}\n```" for e in _episodes(evaluation)
                )
                writer.add_text(f"episodes/{evaluation.stage}/{evaluation.split}/{evaluation.decoding}", text, number)


def _episodes(evaluation: Evaluation) -> list[EpisodeView]:
    scores = scores_of(evaluation)
    wanted = choose(scores, EPISODES)[:EPISODES]
    trajectories: dict[int, Trajectory] = {
        i: trajectory for i, trajectory in enumerate(evaluation.trajectories()) if i in wanted
    }
    return [view(evaluation, trajectories[i], scores[i]) for i in wanted]


def _row(shown: EpisodeView) -> list[Any]:
    of = shown.evaluation
    gold, given = "; ".join(shown.gold), "" if shown.given is None else "; ".join(shown.given)
    where = [of.stage, of.split, of.decoding, shown.question]
    return [*where, gold, given, shown.verdict, shown.ending, len(shown.turns), _text(shown)]


def _text(shown: EpisodeView) -> str:
    turns = (
        "\n".join([f"{t.number}. {t.thought}", f"{t.kind}: {t.action or t.raw}", *(line for line, _ in t.lines)])
        for t in shown.turns
    )
    return "\n\n".join(turns)
