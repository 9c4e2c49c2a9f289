"""Canaries: secrets that are sent in every way, and looked for in everything that comes out."""

import contextlib
import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import AbstractContextManager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import count
from pathlib import Path
from typing import Any

import psycopg
import pytest

from conditions import eventually_here
from interfaces.up import Up, up
from model_checks.places import place_of
from onbeat.dashboard.routes import PAGES
from stores.mysql import server as mysql
from telemetry.collector import Collector, collecting
from telemetry.test_service_traces import exporting_to

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
    # A payload that is never shown, and encrypted where it lies.
    hidden: dict[str, Any] = {"task": "nobody", "args": [canaries.secret()], "encrypted": True}
    asked = {"target": hidden, "sensitive": True, "delay": "1h"}
    assert outside.ask("/api/jobs", asked)[0] == 201
    notice = {"channel": "mail", "to": "a@example.org", "text": "plain", "retry": ONCE}
    assert outside.ask("/api/notifications", notice)[0] == 201
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


def look_with(outside: Outside, key: str, ids: list[str]) -> None:
    """What a key of fewer rights is answered, be it that it may not ask."""
    paths = ("/api/jobs", "/api/schedules", "/api/dead", "/api/audit", "/api/keys", "/api/settings")
    for path in (*paths, *(f"/api/schedules/{id}" for id in ids)):
        assert outside.ask(path, key=key)[0] in {200, 403}, path


def turn_pages(outside: Outside, ids: list[str]) -> None:
    """Every page of the dashboard, about what the requests left."""
    _, jobs = outside.ask("/api/jobs?limit=100")
    _, letters = outside.ask("/api/dead")
    _, failures = outside.ask("/api/failures")
    known = {
        "/schedules/{id}": ids,
        "/jobs/{id}": [job["id"] for job in jobs["jobs"]],
        "/dead/{id}": [letter["id"] for letter in letters["letters"]],
        "/queues/{name}": ["default"],
        "/failures/{fault}": [failure["fault"] for failure in failures["failures"]],
    }
    turned = 0
    for path in PAGES:
        if "{" not in path:
            places = [path]
        else:
            beginning = path[: path.index("}") + 1]
            ending = path[len(beginning) :]
            name = beginning[beginning.index("{") :]
            places = [
                beginning.replace(name, str(one)) + ending for one in known.get(beginning, [])
            ]
        for place in places:
            status, text = outside.ask(place)
            assert status == 200, (place, text)
            turned += 1
    assert turned > len(PAGES)


def all_ended(outside: Outside) -> bool:
    _, answer = outside.service.ask("/api/jobs?limit=100", Authorization=f"Bearer {outside.key}")
    called = [job for job in answer["jobs"] if "http" in job["target"] and job["attempts_max"] == 1]
    return sum(job["state"] in ENDED for job in called) == 4


def make_keys(service: Up, canaries: Canaries, admin: str) -> list[str]:
    """Keys of lesser scopes. Their texts are canaries as well: they are shown once, to their maker."""
    keys = []
    for scope in ("read", "submit", "work", "operate"):
        body = {"name": f"of-{scope}", "scopes": [scope]}
        status, made = service.ask("/api/keys", body, Authorization=f"Bearer {admin}")
        assert status == 201, made
        keys.append(made["key"])
        canaries.all.append(made["key"][10:20])
    return keys


def lie_open(canaries: Canaries, folder: Path, store: str | None) -> None:
    """No file of the store holds a canary: database, log, shared memory, ballast; nor any row."""
    if store is not None:
        for table, text in rows_of(store):
            assert not canaries.found_in(text), table
        return
    files = [path for path in folder.iterdir() if path.name.startswith("onbeat.db")]
    assert files
    for path in files:
        assert not canaries.found_in(path.read_bytes().decode("latin-1")), path.name


def rows_of(url: str) -> list[tuple[str, str]]:
    """Every table of the database of a server, with all its rows as text."""
    found = tables_of_postgres(url) if url.startswith("postgresql:") else tables_of_mysql(url)
    assert any("nobody" in text for text in found.values()), "the rows are read"
    return list(found.items())


def tables_of_postgres(url: str) -> dict[str, str]:
    with psycopg.connect(url) as db:
        names = db.execute(
            "SELECT quote_ident(schemaname) || '.' || quote_ident(relname) FROM pg_stat_user_tables"
        ).fetchall()
        return {name: repr(db.execute(f"SELECT * FROM {name}").fetchall()) for (name,) in names}


def tables_of_mysql(url: str) -> dict[str, str]:
    names = mysql.execute(url, "SHOW TABLES")
    return {name: repr(mysql.execute(url, f"SELECT * FROM `{name}`")) for (name,) in names}


def traced(
    folder: Path, collector: Collector, settings: dict[str, Any]
) -> AbstractContextManager[Up]:
    return up(folder, open_files=None, **settings | exporting_to(collector.url))


def test_no_secret_comes_out_or_lies_open(tmp_path: Path, echo: tuple[str, list[Any]]) -> None:
    look_for_canaries(tmp_path, echo, None)


@pytest.mark.proof
@pytest.mark.parametrize("store", ["postgres", "mysql"])
def test_none_lies_open_in_the_rows_of_a_server(
    tmp_path: Path, echo: tuple[str, list[Any]], store: str
) -> None:
    with place_of(store, tmp_path) as url:
        look_for_canaries(tmp_path, echo, url)


def look_for_canaries(tmp_path: Path, echo: tuple[str, list[Any]], store: str | None) -> None:
    """In all that comes out of a service on this store, or on a file, and in the store itself."""
    base, seen = echo
    canaries = Canaries()
    key = canaries.secret() + "k" * 20
    settings: dict[str, Any] = {
        "ONBEAT_API__KEYS": key,
        "ONBEAT_LOG__LEVEL": "debug",
        "ONBEAT_SECRETS__KEYS": "k1:" + canaries.keep("canarykey0" + "A" * 33),
        "ONBEAT_CONNECTIONS": f"bus=amqp://u:{canaries.secret()}@127.0.0.1:1/",
        "ONBEAT_CHANNELS": f"mail=smtp://u:{canaries.secret()}@127.0.0.1:1?from=a@example.org",
    }
    if store is not None:
        settings["ONBEAT_STORE"] = store
    with collecting() as collector, traced(tmp_path, collector, settings) as service:
        outside = Outside(service, key)
        ids = create(outside, canaries, base)
        eventually_here(lambda: all_ended(outside), "all callbacks have ended", 60)
        provoke(outside, canaries, ids[0])
        look(outside, ids)
        for lesser in make_keys(service, canaries, key):
            look_with(outside, lesser, ids)
        turn_pages(outside, ids)
        eventually_here(lambda: collector.named("process @http"), "attempts are traced")
        log = service.log.read_text()
        lie_open(canaries, tmp_path, store)
    lie_open(canaries, tmp_path, store)
    assert len(canaries.all) >= 20
    sent = "".join(seen)
    assert len(canaries.found_in(sent)) == 4 * 5, "the endpoint got what it was to get"
    for answer in outside.answers:
        assert not canaries.found_in(answer), answer
    for body in collector.bodies:
        assert not canaries.found_in(body.decode("latin-1")), "traces and metrics"
    for line in (*log.splitlines(), (tmp_path / "up.log").read_text()):
        assert not canaries.found_in(line), line


@pytest.mark.parametrize("store", ["sqlite", "postgres", "mysql"])
def test_what_nothing_hides_is_found_in_each_of_these_places(tmp_path: Path, store: str) -> None:
    """The search itself is tried on an argument that everybody may see."""
    canaries = Canaries()
    key = canaries.secret() + "k" * 20
    with contextlib.ExitStack() as stack:
        url = None if store == "sqlite" else stack.enter_context(place_of(store, tmp_path))
        settings = {"ONBEAT_API__KEYS": key} | ({} if url is None else {"ONBEAT_STORE": url})
        outside = Outside(stack.enter_context(up(tmp_path, open_files=None, **settings)), key)
        shown = {"task": "nobody", "args": [canaries.secret()]}
        status, made = outside.ask("/api/jobs", {"target": shown, "delay": "1h"})
        assert status == 201
        for path in ("/api/jobs", f"/jobs/{made['id']}"):
            outside.ask(path)
            assert canaries.found_in(outside.answers[-1]), path
        with pytest.raises(AssertionError, match=r"jobs|onbeat\.db"):
            lie_open(canaries, tmp_path, url)
