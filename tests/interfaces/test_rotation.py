"""A signing secret is replaced while callbacks go out, and the receiver verifies every one."""

import threading
from collections.abc import Iterator
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from standardwebhooks import Webhook, WebhookVerificationError

from conditions import eventually_here
from interfaces.up import Up, up

OLD = "whsec_" + "A" * 32
NEW = "whsec_" + "B" * 32
JOBS_AT_LEAST = 10


class Receiver(BaseHTTPRequestHandler):
    """Knows one secret at a time, and refuses for good what it cannot verify."""

    known: list[str]

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        try:
            headers = {name.lower(): value for name, value in self.headers.items()}
            Webhook(self.known[-1]).verify(body, headers, json_parse=False)
            self.send_response(204)
        except WebhookVerificationError:
            self.send_response(401)
        self.end_headers()

    def log_message(self, *_: object) -> None: ...


@pytest.fixture
def receiver() -> Iterator[tuple[str, list[str]]]:
    known = [OLD]
    handler = type("KnowingReceiver", (Receiver,), {"known": known})
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}/", known
    server.shutdown()
    thread.join()
    server.server_close()


class Load:
    """Triggers a schedule again and again until it is stopped."""

    def __init__(self, service: Up, id: str) -> None:
        self.service = service
        self.id = id
        self.made: list[str] = []
        self.stopped = threading.Event()
        self.thread = threading.Thread(target=self.run)
        self.thread.start()

    def run(self) -> None:
        while not self.stopped.is_set():
            _, answer = self.service.ask(f"/api/schedules/{self.id}/trigger", method="POST")
            self.made.append(answer["job_id"])

    def stop(self) -> None:
        self.stopped.set()
        self.thread.join()

    def some_more(self) -> None:
        enough = len(self.made) + JOBS_AT_LEAST
        eventually_here(lambda: len(self.made) >= enough, "more jobs are made")

    def all_so_far_ended(self) -> None:
        for id in self.made[:]:
            eventually_here(partial(self.has_ended, id), "it ended")

    def has_ended(self, id: str) -> bool:
        return self.state_of(id) in {"succeeded", "failed"}

    def state_of(self, id: str) -> str:
        return self.service.ask(f"/api/jobs/{id}")[1]["state"]


def signed_by(service: Up, id: str, url: str, secret: object) -> None:
    http = {"url": url, "method": "POST", "body": "{}", "secret": secret}
    status, _ = service.ask(f"/api/schedules/{id}", {"target": {"http": http}}, method="PUT")
    assert status == 200


def test_no_callback_is_refused_while_the_secret_is_replaced(tmp_path: Path, receiver: Any) -> None:
    url, known = receiver
    http = {"url": url, "method": "POST", "body": "{}", "secret": OLD}
    body = {"name": "s", "every": "1d", "target": {"http": http}}
    with up(tmp_path) as service:
        status, made = service.ask("/api/schedules", body)
        assert status == 201
        load = Load(service, made["id"])
        try:
            load.some_more()
            signed_by(service, made["id"], url, [NEW, "***"])
            load.some_more()
            load.all_so_far_ended()
            known.append(NEW)
            load.some_more()
            signed_by(service, made["id"], url, NEW)
            load.some_more()
        finally:
            load.stop()
        load.all_so_far_ended()
        states = {load.state_of(id) for id in load.made}
    assert len(load.made) >= 4 * JOBS_AT_LEAST
    assert states == {"succeeded"}
