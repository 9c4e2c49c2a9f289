"""Canaries: secrets that are sent in every way, and looked for in everything that comes out."""

import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from conditions import eventually_here
from interfaces.up import Up, up

ENDED = {"succeeded", "failed"}


class Echo(BaseHTTPRequestHandler):
    """Answers with all that it was sent, as debugging pages do."""

    seen: list[str]

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length", 0))).decode()
        text = json.dumps([self.path, dict(self.headers), body])
        self.seen.append(text)
        self.send_response(500 if "/fails" in self.path else 200)
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text.encode())

    def log_message(self, *_: object) -> None: ...


@pytest.fixture
def echo() -> Iterator[tuple[str, list[str]]]:
    seen: list[str] = []
    server = ThreadingHTTPServer(("127.0.0.1", 0), type("SeeingEcho", (Echo,), {"seen": seen}))
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}", seen
    server.shutdown()
    thread.join()
    server.server_close()


class Canaries:
    """Distinct secrets; those for signing are keys in base64."""

    def __init__(self) -> None:
        self.numbers = count(1)
        self.all: list[str] = []

    def secret(self) -> str:
        return self.keep(f"canary{next(self.numbers):04d}")

    def signing(self) -> str:
        return "whsec_" + self.keep(f"canary{next(self.numbers):04d}" + "A" * 30)

    def keep(self, text: str) -> str:
        self.all.append(text[:10])
        return text

    def found_in(self, text: str) -> list[str]:
        return [canary for canary in self.all if canary in text]


class Outside:
    """Asks the service, and keeps every answer."""

    def __init__(self, service: Up, key: str) -> None:
        self.service = service
        self.key = key
        self.answers: list[str] = []

    def ask(
        self, path: str, body: object = None, method: str | None = None, key: str = ""
    ) -> tuple[int, Any]:
        status, answer = self.service.ask(
            path, body, method=method, Authorization=f"Bearer {key or self.key}"
        )
        self.answers.append(f"{path} {status} {json.dumps(answer)}")
        return status, answer

    def rpc(self, method: str, params: object) -> None:
        call = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
        self.ask("/rpc", call)

    def run(self, *arguments: str) -> None:
        """A command line, whose every word but a secret is seen again."""
        host, port = self.service.address
        asking = {"ONBEAT_SERVER": f"http://{host}:{port}", "ONBEAT_API_KEY": self.key}
        ran = subprocess.run(
            [sys.executable, "-m", "onbeat", *arguments],
            env=dict(os.environ) | asking,
            capture_output=True,
            text=True,
            check=False,
            timeout=60,
        )
        self.answers.append(f"{arguments[0]} {ran.stdout} {ran.stderr}")


def target(canaries: Canaries, base: str) -> dict[str, object]:
    """An HTTP request with a credential in each place that has one."""
    return {
        "url": f"{base}?to=7&token={canaries.secret()}&sig={canaries.secret()}",
        "method": "POST",
        "headers": {
            "Authorization": f"Bearer {canaries.secret()}",
            "X-Api-Key": canaries.secret(),
            "Cookie": f"session={canaries.secret()}",
        },
        "body": "plain",
        "secret": [canaries.signing(), canaries.signing()],
    }


ONCE = {"attempts_max": 1}


def create(outside: Outside, canaries: Canaries, base: str) -> list[str]:
    """Schedules and jobs in all ways; the ids of the schedules."""
    ids = []
    for end in ("works", "fails"):
        http = target(canaries, f"{base}/{end}")
        body = {"name": end, "key": end, "every": "1h", "retry": ONCE, "target": {"http": http}}
        status, made = outside.ask("/api/schedules", body)
        assert status == 201
        ids.append(made["id"])
        assert outside.ask(f"/api/schedules/{made['id']}/trigger", method="POST")[0] in {200, 201}
        http = target(canaries, f"{base}/{end}")
        outside.ask("/api/jobs", {"target": {"http": http}, "retry": ONCE})
    outside.rpc(
        "schedule.create",
        {"schedule": {"name": "r", "every": "1h", "target": {"http": target(canaries, base)}}},
    )
    message = {"to": "bus", "queue": "q", "headers": {"authorization": canaries.secret()}}
    assert outside.ask("/api/jobs", {"target": {"message": message}, "retry": ONCE})[0] == 201
    submission = {"objectID": 1, "token": canaries.secret()}
    outside.ask(
        "/rpc", {"jsonrpc": "2.0", "id": 1, "method": "submit:nobody", "params": submission}
    )
    return ids


def provoke(outside: Outside, canaries: Canaries, id: str) -> None:
    """Errors about requests that hold credentials."""
    url, secret = "https://elsewhere.example.org/", canaries.secret
    for http in (
        {"url": f"https://user:{secret()}@example.org/"},
        {"url": f"https://example.org/?token={secret()}%zz"},
        {"url": f"https://exa mple.org/?token={secret()}"},
        {"url": url, "secret": f"whsec_{secret()}"},
        {"url": url, "secret": [f"whsec_{secret()}"]},
        {"url": url, "headers": {"Authorization": f"Bearer {secret()}\n"}},
        {"url": url, "headers": {"Authorization": [secret()]}},
        {"url": url, "headers": {"Token": secret(), "token": secret()}},
        {"url": url, "secret": None},
        {"url": url, "headers": {}},
    ):
        body = {"target": {"http": http}}
        assert outside.ask(f"/api/schedules/{id}", body, "PUT")[0] in {200, 400, 422}
        outside.ask("/api/jobs", body | {"delay": "1h"})
    assert outside.ask("/api/jobs", key=secret())[0] == 401
    outside.run("job", "add", "--url", url, "--header", f"Authorization Bearer {secret()}")


def look(outside: Outside, ids: list[str]) -> None:
    """All answers there are about it."""
    _, jobs = outside.ask("/api/jobs?limit=100")
    for job in jobs["jobs"]:
        outside.ask(f"/api/jobs/{job['id']}")
        outside.ask(f"/api/jobs/{job['id']}/why")
    for id in ids:
        for end in ("", "/events/pending", "/events/history"):
            outside.ask(f"/api/schedules/{id}{end}")
    _, letters = outside.ask("/api/dead")
    assert letters["letters"], "the submission was put aside"
    for letter in letters["letters"]:
        outside.ask(f"/api/dead/{letter['id']}")
    for path in ("/api/schedules", "/api/audit", "/api/queues", "/api/workers", "/api/stats"):
        outside.ask(path)
    for path in ("/metrics", "/health/ready"):
        outside.ask(path)
    for method in ("schedule.list", "job.list", "dead.list"):
        outside.rpc(method, {})
    outside.run("schedule", "list", "--json")
    outside.run("job", "list", "--json")
    outside.run("job", "show", jobs["jobs"][-1]["id"])


def all_ended(outside: Outside) -> bool:
    _, answer = outside.service.ask("/api/jobs?limit=100", Authorization=f"Bearer {outside.key}")
    called = [job for job in answer["jobs"] if "http" in job["target"] and job["attempts_max"] == 1]
    return sum(job["state"] in ENDED for job in called) == 4


def lie_open(canaries: Canaries, folder: Path) -> None:
    """No file of the store holds a canary: database, log, shared memory, ballast."""
    files = [path for path in folder.iterdir() if path.name.startswith("onbeat.db")]
    assert files
    for path in files:
        assert not canaries.found_in(path.read_bytes().decode("latin-1")), path.name


def test_no_secret_comes_out_or_lies_open(tmp_path: Path, echo: tuple[str, list[Any]]) -> None:
    base, seen = echo
    canaries = Canaries()
    key = canaries.secret() + "k" * 20
    settings: dict[str, Any] = {
        "ONBEAT_API__KEYS": key,
        "ONBEAT_LOG__LEVEL": "debug",
        "ONBEAT_SECRETS__KEYS": "k1:" + canaries.keep("canarykey0" + "A" * 33),
        "ONBEAT_CONNECTIONS": f"bus=amqp://u:{canaries.secret()}@127.0.0.1:1/",
    }
    with up(tmp_path, **settings) as service:
        outside = Outside(service, key)
        ids = create(outside, canaries, base)
        eventually_here(lambda: all_ended(outside), "all callbacks have ended", 60)
        provoke(outside, canaries, ids[0])
        look(outside, ids)
        log = service.log.read_text()
        lie_open(canaries, tmp_path)
    lie_open(canaries, tmp_path)
    assert len(canaries.all) >= 20
    sent = "".join(seen)
    assert len(canaries.found_in(sent)) == 4 * 5, "the endpoint got what it was to get"
    for answer in outside.answers:
        assert not canaries.found_in(answer), answer
    for line in (*log.splitlines(), (tmp_path / "up.log").read_text()):
        assert not canaries.found_in(line), line
