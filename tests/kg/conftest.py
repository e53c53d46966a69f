"""SPARQL servers for tests: real ones, started on free ports of the loopback."""

import shutil
import socket
import subprocess
import sys
import time
from pathlib import Path

import httpx
import pytest

ROOT = Path(__file__).resolve().parents[2]
VIRTUOSO = [sys.executable, str(ROOT / "launch" / "virtuoso" / "virtuoso.py")]


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


class Server:
    """A SPARQL server that can be stopped and started again on its port."""

    def __init__(self, command: list[str], url: str, log: Path, graph: str = "", process=None):
        self.command, self.url, self.log, self.graph = command, url, log, graph
        self.process: subprocess.Popen | None = process
        self.home = log.parent / "db"  # of Virtuoso

    def start(self, seconds: float = 600) -> None:
        with open(self.log, "a") as log:
            self.process = subprocess.Popen(self.command, stdout=log, stderr=log)
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            assert self.process.poll() is None, f"{self.command} ended: {self.log.read_text()[-2000:]}"
            try:
                if httpx.get(self.url, params={"query": "ASK {}"}, timeout=5).status_code == 200:
                    return
            except httpx.HTTPError:
                pass
            time.sleep(0.1)
        self.kill()
        raise AssertionError(f"{self.url} does not answer: {self.log.read_text()[-2000:]}")

    def kill(self) -> None:
        if self.process is not None:
            self.process.kill()
            self.process.wait()


def _oxigraph(nt: Path, folder: Path) -> Server:
    binary = shutil.which("oxigraph", path=str(Path(sys.executable).parent)) or shutil.which("oxigraph")
    if binary is None:
        pytest.skip("needs the Oxigraph server (`pip install oxigraph`)")
    port, data = free_port(), folder / "data"
    subprocess.run([binary, "load", "--location", data, "--file", nt], check=True, capture_output=True)
    command = [binary, "serve", "--location", str(data), "--bind", f"127.0.0.1:{port}"]
    return Server(command, f"http://127.0.0.1:{port}/query", folder / "log")


def _virtuoso(folder: Path) -> tuple[Server, Path]:
    """A running server without triples, and its folder; it may load files from the tests' temporary folders."""
    if not shutil.which("virtuoso-t") or not shutil.which("isql-vt"):
        pytest.skip("needs virtuoso-t and isql-vt (`apt-get install virtuoso-opensource-7`)")
    http, sql, home = free_port(), free_port(), folder / "db"
    ports = ["--http-port", str(http), "--sql-port", str(sql), "--max-rows", "10000"]
    subprocess.run([*VIRTUOSO, "ini", home, "--memory", "400M", *ports, "--data", folder.parent], check=True)
    server = Server([*VIRTUOSO, "serve", str(home)], f"http://127.0.0.1:{http}/sparql", folder / "log")
    server.start()
    return server, home


@pytest.fixture(scope="session")
def sparql_server(tmp_path_factory):
    """A function (kind, N-Triples file) that gives a running server with the triples; kind is oxigraph or virtuoso.

    Virtuoso takes a while to start, so its graphs share one server, unless `own` asks for another.
    """
    started: list[Server] = []
    shared: list[tuple[Server, Path]] = []

    def start(kind: str, nt: Path, own: bool = False) -> Server:
        folder = tmp_path_factory.mktemp(kind)
        if kind == "oxigraph":
            server = _oxigraph(nt, folder)
            started.append(server)
            server.start()
            return server
        server, home = shared[0] if shared and not own else _virtuoso(folder)
        if not own and not shared:
            shared.append((server, home))
        graph = f"http://graphwalker.test/{folder.name}"
        started.append(Server(server.command, server.url, server.log, graph, server.process))
        subprocess.run([*VIRTUOSO, "load", home, nt, "--graph", graph], check=True)
        return started[-1]

    yield start
    for server in started:
        server.kill()


@pytest.fixture(scope="session")
def connected(sparql_server, tmp_path_factory):
    """A function (kind, N-Triples file, schema) that gives the folder of a KG behind a running server."""
    from graphwalker.kg.connect import connect_kg
    from graphwalker.kg.sparql_http import Endpoint

    def connect(kind: str, nt: Path, schema: str = "freebase", **settings) -> Path:
        server = sparql_server(kind, nt)
        endpoint = Endpoint(server.url, server.graph, **settings)
        return connect_kg(endpoint, tmp_path_factory.mktemp("kg") / "kg", schema, progress=False)

    return connect
