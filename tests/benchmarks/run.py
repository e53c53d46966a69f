"""Run the benchmarks of this folder, each in a process of its own: `make bench`, or `make bench BENCH=kg` for one.

Each bench_NAME.py prints its table and takes `--out FILE` for the same as JSON, written here to runs/bench/NAME.json.
"""

import argparse
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]


def main() -> int:
    files = {path.stem.removeprefix("bench_"): path for path in sorted(HERE.glob("bench_*.py"))}
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("names", nargs="*", help=f"benchmarks to run, of: {', '.join(files)} (default: all)")
    parser.add_argument("--out", type=Path, default=ROOT / "runs" / "bench", help="folder for the JSON files")
    args = parser.parse_args()
    if unknown := sorted(set(args.names) - set(files)):
        parser.error(f"no benchmark named {', '.join(unknown)}; there are: {', '.join(files)}")
    args.out.mkdir(parents=True, exist_ok=True)
    failed = []
    for name in args.names or files:
        print(f"== {name}", flush=True)
        command = [sys.executable, str(files[name]), "--out", str(args.out / f"{name}.json")]
        if subprocess.run(command, cwd=ROOT).returncode:
            failed.append(name)
    if failed:
        print(f"failed: {', '.join(failed)}", file=sys.stderr)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
