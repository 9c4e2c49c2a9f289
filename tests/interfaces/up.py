"""`onbeat up` as a process, with its log and plain requests to it."""

import contextlib
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from http.client import HTTPConnection
from pathlib import Path
from typing import Any

from conditions import eventually_here


class Up:
    """A running service."""

    def __init__(self, process: subprocess.Popen[bytes], log: Path) -> None:
        self.process = process
        self.log = log

    @property
    def lines(self) -> list[dict[str, Any]]:
        """The log's lines that are whole."""
        whole = self.log.read_text().rpartition("\n")[0]
        return [json.loads(line) for line in whole.splitlines() if line.startswith("{")]

    def events(self, name: str) -> list[dict[str, Any]]:
        return [line for line in self.lines if line["event"] == name]

    def ready(self) -> bool:
        assert self.process.poll() is None, self.log.read_text()
        return bool(self.events("ready"))

    @property
    def address(self) -> tuple[str, int]:
        place = self.events("ready")[0]["address"].partition("://")[2]
        host, _, port = place.rpartition(":")
        return host.strip("[]"), int(port)

    def ask(
        self, path: str, body: object = None, *, method: str | None = None, **headers: str
    ) -> tuple[int, Any]:
        """Status and JSON of one request on a connection of its own."""
        connection = HTTPConnection(*self.address, timeout=20)
        sent = None if body is None else json.dumps(body)
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        if body is not None:
            named["Content-Type"] = "application/json"
        with contextlib.closing(connection):
            connection.request(method or ("POST" if sent else "GET"), path, sent, named)
            response = connection.getresponse()
            text = response.read()
        is_json = response.headers.get_content_type() == "application/json"
        return response.status, json.loads(text) if is_json else text.decode()


@contextlib.contextmanager
def up(folder: Path, *args: str, open_files: int | None = None, **environment: str) -> Iterator[Up]:
    """The service on a free port, until the block ends; `open_files` is its `ulimit -n`."""
    kept = {name: text for name, text in os.environ.items() if not name.startswith("ONBEAT_")}
    log = folder / "up.log"

    # Its working directory is another than that of the tests.
    python = str(Path(sys.executable).absolute())
    command = [python, "-m", "onbeat", "up", "--port", "0", *args]
    if open_files is not None:
        command = ["sh", "-c", 'ulimit -n "$0" && exec "$@"', str(open_files), *command]
    with log.open("wb") as out:
        process = subprocess.Popen(
            command,
            cwd=folder,
            env=kept | {"ONBEAT_LOG__FORMAT": "json"} | environment,
            stdout=out,
            stderr=subprocess.STDOUT,
        )
    try:
        service = Up(process, log)
        eventually_here(service.ready, "the service is ready")
        yield service
    finally:
        process.terminate()
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(20)
        process.kill()
        process.wait()
