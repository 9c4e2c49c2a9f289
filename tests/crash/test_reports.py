"""A receiver works on a job while its service is killed: the job ends once, by its report."""

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from conditions import eventually_here
from interfaces.up import Up, up

pytestmark = pytest.mark.proof

BASE = "http://jobs.example.com"
LEASE: dict[str, Any] = {"ONBEAT_WORKER__LEASE": "2s", "ONBEAT_API__PUBLIC_URL": BASE}
DONE = {"outcome": "succeeded", "result": {"rows": 3}}
AT_ONCE = {"attempts_max": 1}


class Receiver(ThreadingHTTPServer):
    """Takes each job on, at once or once `answers` is set."""

    def __init__(self) -> None:
        self.addresses: list[str] = []
        self.answers = threading.Event()
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                outer.addresses.append(self.headers["Onbeat-Report-Url"])
                outer.answers.wait(60)
                self.send_response(202)
                self.send_header("Onbeat-Async", "true")
                self.send_header("Content-Length", "0")
                self.end_headers()

            def log_message(self, *_: Any) -> None: ...

        super().__init__(("127.0.0.1", 0), Handler)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}/"

    def path(self, place: int = 0) -> str:
        parts = urlsplit(self.addresses[place])
        return f"{parts.path}?{parts.query}"


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    receiver = Receiver()
    threading.Thread(target=receiver.serve_forever, daemon=True).start()
    yield receiver
    receiver.answers.set()
    receiver.shutdown()
    receiver.server_close()


def serve(place: Path) -> Any:
    return up(place, ONBEAT_STORE=(place / "store").read_text(), **LEASE)


def send(service: Up, receiver: Receiver) -> str:
    target = {"http": {"url": receiver.url, "method": "POST"}}
    job = {"target": target, "timeout": "1h", "retry": AT_ONCE}
    status, answer = service.ask("/api/jobs", job)
    assert status == 201, answer
    return str(answer["id"])


def job_in(service: Up, id: str) -> dict[str, Any]:
    status, job = service.ask(f"/api/jobs/{id}")
    assert status == 200, job
    return dict(job)


def holder(service: Up, id: str) -> str:
    attempts = job_in(service, id)["attempts"]
    return attempts[-1]["worker"] if attempts else ""


def kill(service: Up) -> None:
    service.process.kill()
    service.process.wait()


def test_a_job_that_was_taken_on_outlives_the_worker(place: Path, receiver: Receiver) -> None:
    receiver.answers.set()
    with serve(place) as service:
        id = send(service, receiver)
        eventually_here(lambda: holder(service, id) == "receiver", "the receiver holds it", 60)
        kill(service)
    with serve(place) as service:
        # The new service has found the old worker dead before it rescues what that held.
        eventually_here(lambda: is_alone(service), "the dead worker is forgotten", 60)
        assert len(receiver.addresses) == 1
        status, answer = service.ask(receiver.path(), DONE)
        assert (status, answer["state"]) == (200, "succeeded"), json.dumps(answer)
        assert service.ask(receiver.path(), DONE) == (status, answer)
        job = job_in(service, id)
        assert (job["result"], len(job["attempts"])) == ({"rows": 3}, 1)


def test_a_worker_that_died_before_the_answer_leaves_a_stale_address(
    place: Path, receiver: Receiver
) -> None:
    with serve(place) as service:
        id = send(service, receiver)
        eventually_here(lambda: receiver.addresses, "the callback", 60)
        kill(service)
    receiver.answers.set()
    with serve(place) as service:
        eventually_here(lambda: len(receiver.addresses) == 2, "the attempt is lost", 60)
        status, answer = service.ask(receiver.path(0), DONE)
        assert (status, answer["error"]["code"]) == (409, "lease_lost")
        status, answer = service.ask(receiver.path(1), DONE)
        assert status == 200, answer
        job = job_in(service, id)
        assert [one["outcome"] for one in job["attempts"]] == ["lost", "succeeded"]


def is_alone(service: Up) -> bool:
    _, answer = service.ask("/api/workers")
    return len(answer["workers"]) == 1
