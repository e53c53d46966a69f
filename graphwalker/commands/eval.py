"""``graphwalker eval MODEL QUESTIONS``: an agent over questions, scored."""

import argparse
from pathlib import Path
from typing import Any


def add_parser(subparsers: "argparse._SubParsersAction") -> None:
    parser = subparsers.add_parser(
        "eval",
        help="run an agent over questions and score it",
        description="Runs a model over questions on a knowledge graph, greedily unless --temperature is given, and "
        "writes trajectories.jsonl and metrics.json. Interrupted, the same command goes on where it stopped.",
    )
    parser.add_argument("model", help="a model's folder, a hub id, or smollm2")
    parser.add_argument("questions", type=Path, help="JSONL of questions")
    parser.add_argument("--kg", required=True, help="the folder of a built knowledge graph")
    parser.add_argument("--out", type=Path, required=True, help="the folder to write")
    parser.add_argument("--prompt", default="graphwalker", help="graphwalker, compact, or a .jinja file")
    parser.add_argument("--max-turns", type=_count, default=10, help="turns an episode may take (default: 10)")
    parser.add_argument(
        "--any-relation", action="store_true", help="do not refuse relations that were not shown before"
    )
    parser.add_argument("--temperature", type=_temperature, default=0.0, help="0 is greedy (default)")
    parser.add_argument("--samples", type=_count, default=1, help="episodes a question; more than 1 need a temperature")
    parser.add_argument("--rows", type=_count, default=64, help="episodes decoded at a time (default: 64)")
    parser.add_argument("--turn-tokens", type=_count, default=512, help="tokens a turn may take (default: 512)")
    parser.add_argument(
        "--episode-tokens", type=_count, default=4096, help="tokens an episode may take, the prompt included (4096)"
    )
    parser.add_argument(
        "--backend", choices=("auto", "transformers", "vllm", "server"), default="auto", help="what decodes"
    )
    parser.add_argument("--url", help="where the backend server answers, such as http://localhost:8000 (docs/vllm.md)")
    parser.add_argument(
        "--guided-turns", action="store_true", default=None, help="hold every turn to the protocol's form (vLLM)"
    )
    parser.add_argument("--max-questions", type=_count, help="only the first so many")
    parser.add_argument("--seed", type=_seed, default=0, help="seed of sampling and of the bootstrap (default: 0)")


def run(args: argparse.Namespace) -> int:
    from envs.factory import EnvConfig, env_factory
    from graphwalker.errors import UserError
    from graphwalker.inference.engine import Sampling
    from graphwalker.inference.partial import is_finished
    from graphwalker.report.stages import summary
    from graphwalker.tools.questions import read_questions

    if args.samples > 1 and Sampling(args.temperature).greedy:
        raise UserError("--samples above 1 needs a --temperature: greedy episodes are all the same")
    settings = {key: str(value) if isinstance(value, Path) else value for key, value in vars(args).items()}
    settings = {key: value for key, value in settings.items() if key not in ("run", "command", "out", "rows", "url")}
    if is_finished(args.out, settings):
        print(f"{args.out} is finished; remove it to run it again")
    else:
        env = EnvConfig(args.kg, args.prompt, max_turns=args.max_turns, strict_relations=not args.any_relation)
        make_env = env_factory(env)
        questions = read_questions(args.questions, make_env().toolbox, args.max_questions)
        _evaluate(args, questions, make_env, settings)
    print(summary(args.out))
    print(f"Written to {args.out}; read the episodes with: graphwalker report {args.out}")
    return 0


def _evaluate(args: argparse.Namespace, questions: list, make_env: Any, settings: dict[str, Any]) -> None:
    from graphwalker.inference.engine import Sampling
    from graphwalker.inference.evaluate import evaluate
    from graphwalker.inference.load import load_engine
    from graphwalker.inference.partial import held, is_finished, write_settings
    from graphwalker.train.models import prepare_model

    engine = load_engine(
        prepare_model(args.model),
        backend=args.backend,
        capacity=args.rows,
        max_length=args.episode_tokens,
        url=args.url,
        guided=bool(args.guided_turns),
    )
    sampling, options = Sampling(args.temperature, max_new_tokens=args.turn_tokens), {"samples": args.samples}
    with held(args.out):
        if not is_finished(args.out, settings):
            write_settings(args.out, settings)
            evaluate(questions, make_env, engine, sampling, args.out, seed=args.seed, progress=args.model, **options)


def _count(text: str) -> int:
    if int(text) < 1:
        raise argparse.ArgumentTypeError("must be at least 1")
    return int(text)


def _seed(text: str) -> int:
    if int(text) < 0:
        raise argparse.ArgumentTypeError("must not be negative")
    return int(text)


def _temperature(text: str) -> float:
    if not 0 <= float(text) < float("inf"):
        raise argparse.ArgumentTypeError("must be 0 or above")
    return float(text)
