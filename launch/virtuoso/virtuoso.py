#!/usr/bin/env python3
"""Run Virtuoso 7 for a knowledge graph: settings by memory, loading, and waiting until it answers. Needs no package.

    python launch/virtuoso/virtuoso.py ini FOLDER --memory 32G --data DUMP_FOLDER
    python launch/virtuoso/virtuoso.py serve FOLDER &
    python launch/virtuoso/virtuoso.py ready FOLDER
    python launch/virtuoso/virtuoso.py load FOLDER DUMP_FOLDER/*.nt.gz --graph http://freebase.com

The binaries are those of Debian's package virtuoso-opensource-7 or of the image that compose.yaml runs.
"""

import argparse
import configparser
import os
import re
import shutil
import subprocess
import sys
import time
import urllib.error
import urllib.parse
import urllib.request
from pathlib import Path

# Virtuoso's manual gives two thirds of the memory to buffers, of about 8,700 bytes each.
INI = """\
[Database]
DatabaseFile = {folder}/virtuoso.db
ErrorLogFile = {folder}/virtuoso.log
LockFile = {folder}/virtuoso.lck
TransactionFile = {folder}/virtuoso.trx
xa_persistent_file = {folder}/virtuoso.pxa
ErrorLogLevel = 7
FileExtend = 200
MaxCheckpointRemap = {remap}

[TempDatabase]
DatabaseFile = {folder}/virtuoso-temp.db
TransactionFile = {folder}/virtuoso-temp.trx
MaxCheckpointRemap = {remap}

[Parameters]
; SQL, for loading: local only
ServerPort = 127.0.0.1:{sql_port}
DisableUnixSocket = 1
MaxClientConnections = 16
; minutes between checkpoints; 0 for never, which is right for a graph that is loaded once
CheckpointInterval = 0
DirsAllowed = {data}
NumberOfBuffers = {buffers}
MaxDirtyBuffers = {dirty}
MaxQueryMem = {query_memory}M
; one thread for a query: an agent's queries are small and many come at once
ThreadsPerQuery = 1
AsyncQueueMaxThreads = {threads}

[HTTPServer]
ServerPort = {host}:{http_port}
ServerRoot = {folder}
; a kept connection holds a thread: more of these than `connections` in the KG folder's meta.json
ServerThreads = 64
MaxClientConnections = 64
MaxKeepAlives = 64
KeepAliveTimeout = 30

[SPARQL]
ResultSetMaxRows = {max_rows}
; seconds; a query that takes longer is stopped and fails
MaxQueryExecutionTime = {seconds}
MaxQueryCostEstimationTime = 0
"""


def memory_bytes(text: str) -> int:
    """16G, 900M or a number of bytes."""
    match = re.fullmatch(r"(\d+)([KMG]?)", text.upper())
    if not match:
        raise argparse.ArgumentTypeError(f"{text!r}: expected a size such as 32G")
    return int(match[1]) << {"": 0, "K": 10, "M": 20, "G": 30}[match[2]]


def installed_memory() -> int:
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


def write_ini(args: argparse.Namespace) -> int:
    """Two thirds of the memory for buffers, three quarters of these may be dirty, an eighth for queries."""
    folder = args.folder.resolve()
    folder.mkdir(parents=True, exist_ok=True)
    memory = args.memory or installed_memory()
    buffers = max(2_000, memory * 2 // 3 // 8_700)
    text = INI.format(
        folder=args.seen_as or folder,
        data=", ".join(str(path.resolve()) for path in args.data) or "/dump",
        buffers=buffers,
        dirty=buffers * 3 // 4,
        remap=max(2_000, buffers // 8),
        query_memory=max(64, (memory // 8) >> 20),
        threads=max(4, os.cpu_count() or 4),
        sql_port=args.sql_port,
        http_port=args.http_port,
        host=args.host,
        max_rows=args.max_rows,
        seconds=args.seconds,
    )
    (folder / "virtuoso.ini").write_text(text, "utf-8")
    print(f"{folder / 'virtuoso.ini'}: {buffers:,} buffers for {memory / 2**30:.1f} GB")
    return 0


def settings(folder: Path) -> configparser.ConfigParser:
    ini = configparser.ConfigParser(strict=False, comment_prefixes=(";", "#"))
    if not ini.read(folder / "virtuoso.ini"):
        sys.exit(f"{folder / 'virtuoso.ini'} is missing: run `ini` first")
    return ini


def serve(args: argparse.Namespace) -> int:
    """Become the server, in the foreground."""
    settings(args.folder)
    binary = shutil.which("virtuoso-t")
    if binary is None:
        sys.exit("virtuoso-t is not installed: `apt-get install virtuoso-opensource-7`, or use compose.yaml")
    os.chdir(args.folder)
    os.execv(binary, [binary, "+foreground", "+configfile", "virtuoso.ini", "+wait"])


def ready(args: argparse.Namespace) -> int:
    """Wait until an ASK is answered; 1 when that takes too long."""
    host, _, port = settings(args.folder)["HTTPServer"]["ServerPort"].rpartition(":")
    host = "127.0.0.1" if host in ("", "0.0.0.0") else host
    url = f"http://{host}:{port}/sparql?" + urllib.parse.urlencode({"query": "ASK {}"})
    end = time.monotonic() + args.seconds
    while time.monotonic() < end:
        try:
            with urllib.request.urlopen(url, timeout=5) as answer:
                if answer.status == 200:
                    print("ready")
                    return 0
        except (OSError, urllib.error.URLError):
            pass
        time.sleep(0.2)
    print(f"no answer from {url} in {args.seconds} s; see {args.folder / 'virtuoso.log'}", file=sys.stderr)
    return 1


def load(args: argparse.Namespace) -> int:
    """Load files in parallel, make it durable, and fail where a file did not load."""
    binary = next(filter(None, map(shutil.which, ("isql-vt", "isql-v", "isql"))), None)
    if binary is None:
        sys.exit("isql is not installed (Debian: virtuoso-opensource-7-bin)")
    missing = [path for path in args.files if not path.is_file()]
    if missing:
        sys.exit(f"{missing[0]}: no such file")
    address = settings(args.folder)["Parameters"]["ServerPort"]
    command = [binary, address, "dba", args.password, "VERBOSE=OFF", "BANNER=OFF", "ERRORS=STDOUT"]

    def run(sql: str) -> str:
        done = subprocess.run(command, input=sql, text=True, capture_output=True)
        if done.returncode or "*** Error" in done.stdout:
            sys.exit(f"isql failed: {(done.stdout + done.stderr).strip()[:2000]}")
        return done.stdout

    def quoted(value: object) -> str:
        return "'" + str(value).replace("'", "''") + "'"

    # The list remembers every file it ever held, and ld_add passes over those: forget them, to load again or elsewhere.
    for path in args.files:
        run(f"delete from DB.DBA.LOAD_LIST where ll_file = {quoted(path.resolve())};\n")
        run(f"ld_add({quoted(path.resolve())}, {quoted(args.graph)});\n")
    loaders = [
        subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True)
        for _ in range(min(args.loaders, len(args.files)))
    ]
    for loader in loaders:
        assert loader.stdin is not None
        loader.stdin.write("rdf_loader_run();\n")
        loader.stdin.close()
    failed = [loader.wait() for loader in loaders]
    run("checkpoint;\n")
    errors = run("select ll_file, ll_error from DB.DBA.LOAD_LIST where ll_error is not null or ll_state <> 2;\n")
    if any(failed) or any(str(path.resolve()) in errors for path in args.files):
        sys.exit(f"not everything was loaded:\n{errors}")
    print(f"loaded {len(args.files)} files into {args.graph}")
    return 0


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    commands = parser.add_subparsers(dest="command", required=True)
    ini = commands.add_parser("ini", help="write FOLDER/virtuoso.ini")
    ini.add_argument("--memory", type=memory_bytes, help="memory that Virtuoso may take, such as 32G (default: all)")
    ini.add_argument("--data", type=Path, nargs="*", default=[], help="folders that files may be loaded from")
    ini.add_argument("--seen-as", metavar="PATH", help="FOLDER's path for the server, where it runs in a container")
    ini.add_argument("--host", default="127.0.0.1", help="address to listen on (default: this machine only)")
    ini.add_argument("--http-port", type=int, default=8890)
    ini.add_argument("--sql-port", type=int, default=1111)
    ini.add_argument("--max-rows", type=int, default=100_000, help="rows of an answer; for `kg connect --max-rows`")
    ini.add_argument("--seconds", type=int, default=600, help="that any query may take (default: 600)")
    commands.add_parser("serve", help="run in the foreground")
    wait = commands.add_parser("ready", help="wait until it answers")
    wait.add_argument("--seconds", type=int, default=600)
    loading = commands.add_parser("load", help="load N-Triples or Turtle files, plain or .gz")
    loading.add_argument("--graph", required=True, metavar="IRI")
    loading.add_argument("--password", default=os.environ.get("DBA_PASSWORD", "dba"), help="of dba")
    loading.add_argument("--loaders", type=int, default=max(1, (os.cpu_count() or 2) // 2))
    for command in commands.choices.values():
        command.add_argument("folder", type=Path, metavar="FOLDER")
    loading.add_argument("files", type=Path, nargs="+", metavar="FILE")
    args = parser.parse_args()
    return {"ini": write_ini, "serve": serve, "ready": ready, "load": load}[args.command](args)


if __name__ == "__main__":
    sys.exit(main())
