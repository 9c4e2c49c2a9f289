"""A service whose open files are few: others' connections do not take those that it needs."""

import contextlib
import socket
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from conditions import eventually_here
from interfaces.up import up
from onbeat.app.descriptors import connections_max
from onbeat.model.errors import Misconfigured
from onbeat.model.limits import CONNECTIONS_MAX, CONNECTIONS_MIN, DESCRIPTORS_KEPT


@pytest.fixture
def endpoint() -> Iterator[Any]:
    """The URL of an endpoint that answers 200."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            if self.path.endswith("?hold"):
                time.sleep(0.5)  # what it is for: calls that are in flight together
            self.send_response(200)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *_: object) -> None: ...

    class Server(ThreadingHTTPServer):
        request_queue_size = 200

    with Server(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}/"
        server.shutdown()
        thread.join()


@pytest.fixture
def crowd() -> Iterator[Any]:
    """Connections that say `part` and then nothing."""
    with contextlib.ExitStack() as stack:

        def come(address: Any, count: int, part: bytes = b"GET") -> None:
            for _ in range(count):
                line = stack.enter_context(socket.create_connection(address, timeout=10))
                with contextlib.suppress(OSError):
                    line.sendall(part)

        yield come


def test_half_requests_beyond_the_limit_of_open_files_keep_neither_requests_nor_callbacks_out(
    tmp_path: Path, endpoint: Any, crowd: Any
) -> None:
    with up(tmp_path, open_files=200) as service:
        crowd(service.address, 260)
        target = {"url": endpoint, "method": "GET"}
        ids = [
            service.ask("/api/jobs", {"target": {"http": target}, "delay": "1s"})[1]["id"]
            for _ in range(3)
        ]
        crowd(service.address, 260)

        def states() -> Any:
            return [service.ask(f"/api/jobs/{id}")[1] for id in ids]

        eventually_here(
            lambda: {job["state"] for job in states()} == {"succeeded"}, "all three succeeded"
        )
        assert {job["attempt"] for job in states()} == {1}
        assert service.ask("/healthz")[0] == 200
        metrics = service.ask("/metrics")[1]
        (full,) = service.events("connections.full")
    assert f"onbeat_api_connections_max {200 - DESCRIPTORS_KEPT - 100}.0" in metrics
    assert 'onbeat_api_refused_total{reason="evicted"}' in metrics
    assert (full["reason"], full["limit"]) == ("evicted", 36)


def test_more_callbacks_than_open_files_all_succeed_at_their_first_attempt(
    tmp_path: Path, endpoint: Any
) -> None:
    with up(tmp_path, "--concurrency", "400", open_files=120) as service:
        jobs = [
            {"target": {"http": {"url": f"{endpoint}?hold", "method": "GET"}}, "delay": "1s"}
            for _ in range(200)
        ]
        assert service.ask("/api/jobs", {"jobs": jobs})[0] == 201

        def ended() -> Any:
            return service.ask("/api/stats")[1]["jobs"].get("succeeded", 0) == len(jobs)

        eventually_here(ended, "all succeeded", 60)
        result = service.ask("/api/jobs?limit=1000")[1]["jobs"]
        (short,) = service.events("worker.resources_exhausted")
        assert service.events("job.failed") == []
        assert 'onbeat_shortages_total{means="open files"}' in service.ask("/metrics")[1]
        log = service.log.read_text()
    assert {(job["state"], job["attempt"]) for job in result} == {("succeeded", 1)}
    assert (short["level"], short["means"]) == ("warning", "open files")
    assert len(service.events("descriptors.low")) == 1
    assert "site-packages" not in log


@pytest.mark.parametrize(
    ("wanted", "descriptors", "concurrency", "most"),
    [
        (None, None, 100, CONNECTIONS_MAX),
        (None, 65_536, 100, CONNECTIONS_MAX),
        (None, 1_024, 100, 1_024 - DESCRIPTORS_KEPT - 100),
        (None, 1_024, 0, 1_024 - DESCRIPTORS_KEPT),
        # Callbacks get at most half.
        (None, 1_024, 100_000, 512 - DESCRIPTORS_KEPT),
        (None, 20, 100, CONNECTIONS_MIN),
        (10, 1_024, 100, 10),
        (1_024 - DESCRIPTORS_KEPT, 1_024, 100, 1_024 - DESCRIPTORS_KEPT),
        (100_000, None, 100, 100_000),
    ],
)
def test_connections_get_what_the_engine_does_not_need(
    wanted: int | None, descriptors: int | None, concurrency: int, most: int
) -> None:
    assert connections_max(wanted, descriptors, concurrency) == most


def test_more_connections_than_open_files_are_refused_with_the_remedy() -> None:
    with pytest.raises(Misconfigured, match=r"at most 960.*ulimit -n") as caught:
        connections_max(961, 1_024, 100)
    assert caught.value.key == "api.connections_max"


def test_too_few_open_files_for_the_callbacks_are_said(caplog: pytest.LogCaptureFixture) -> None:
    connections_max(None, 1_024, 1_000)
    assert caplog.messages == ["descriptors.low open_files_max=1024 concurrency=1000"]
