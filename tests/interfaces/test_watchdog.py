"""A service tells a watchdog outside that all is well, and only then."""

import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from conditions import eventually_here
from interfaces.up import up


class Receiver(ThreadingHTTPServer):
    """The watchdog: it counts the calls that it hears, and answers with `status`."""

    def __init__(self) -> None:
        self.calls = 0
        self.status = 200
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                outer.calls += self.path == "/ping/secret-7"
                self.send_response(outer.status)
                self.send_header("Content-Length", "0")
                self.end_headers()

            def log_message(self, *_: Any) -> None: ...

        super().__init__(("127.0.0.1", 0), Handler)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}/ping/secret-7"


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    receiver = Receiver()
    threading.Thread(target=receiver.serve_forever, daemon=True).start()
    yield receiver
    receiver.shutdown()
    receiver.server_close()


def settings(receiver: Receiver) -> dict[str, Any]:
    return {"ONBEAT_WATCHDOG__URL": receiver.url, "ONBEAT_WATCHDOG__INTERVAL": "1s"}


def test_the_watchdog_is_called_again_and_again(tmp_path: Path, receiver: Receiver) -> None:
    with up(tmp_path, **settings(receiver)) as service:
        eventually_here(lambda: receiver.calls >= 3, "three calls")
        receiver.status = 500
        (line,) = eventually_here(lambda: service.events("watchdog.silent"), "it is logged")
        assert line["reason"] == "the watchdog answered 500"
        receiver.status = 204
        eventually_here(lambda: service.events("watchdog.heard_again"), "it is told again")
    assert "secret-7" not in service.log.read_text()


def test_the_watchdog_hears_nothing_while_nobody_works(tmp_path: Path, receiver: Receiver) -> None:
    """So its alarm comes although this process lives."""
    roles = ("--roles", "api,planner,maintenance", "--store", f"sqlite:///{tmp_path}/a.db")
    with up(tmp_path, *roles, **settings(receiver)) as service:
        eventually_here(lambda: receiver.calls, "nothing is due, so all is well")
        assert service.ask("/api/jobs", {"task": "mail"})[0] == 201
        (line,) = eventually_here(lambda: service.events("watchdog.silent"), "a job is due")
        assert line["reason"] == "No worker is alive"


def test_an_address_that_cannot_be_called_stops_the_start(tmp_path: Path) -> None:
    with (
        pytest.raises(
            AssertionError, match=r"watchdog\.url: .* must be a URL like https://HOST/PATH"
        ),
        up(tmp_path, ONBEAT_WATCHDOG__URL="pigeon://loft"),
    ):
        pass
