"""The live stream of real processes: over HTTP, through a drain, and from one to another."""

import contextlib
import os
import signal
import threading
from collections.abc import Generator, Sequence
from http.client import HTTPConnection
from pathlib import Path
from textwrap import dedent
from typing import Any

import pytest

from conditions import PATIENCE, eventually_here
from interfaces.stream_reader import Told, told_in
from interfaces.up import Up, up
from stores.postgres import server as postgres

PROGRAM = """
    from onbeat import Onbeat

    beat = Onbeat()


    @beat.task("shop.mail")
    async def mail(to: str) -> str:
        return to
"""
KEY = "admin-key-of-the-test-0001"
EVERY_KIND = "/api/stream?events=job,schedule,queue,pulse,changed"


class Listener:
    """Reads a stream in a thread until it ends."""

    def __init__(self, service: Up, path: str, **headers: str) -> None:
        self.connection = HTTPConnection(*service.address, timeout=120)
        self.connection.request("GET", path, headers=headers)
        self.response = self.connection.getresponse()
        assert self.response.status == 200
        self.body = b""
        self.has_ended = False
        self.thread = threading.Thread(target=self.read, daemon=True)
        self.thread.start()

    def read(self) -> None:
        with contextlib.suppress(OSError, ValueError):
            while part := self.response.read1(65_536):
                self.body += part
            self.has_ended = True

    @property
    def told(self) -> Sequence[Told]:
        return told_in(self.body)

    def states_of(self, id: str) -> list[str]:
        return [one.data["to"] for one in self.told if one.kind == "job" and one.data["id"] == id]

    def close(self) -> None:
        self.connection.close()


@contextlib.contextmanager
def listening(service: Up, path: str = EVERY_KIND, **headers: str) -> Generator[Listener]:
    listener = Listener(service, path, **headers)
    try:
        yield listener
    finally:
        listener.close()


def send(service: Up) -> str:
    status, answer = service.ask("/api/jobs", {"task": "shop.mail", "kwargs": {"to": "a"}})
    assert status == 201, answer
    return str(answer["id"])


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "shop.py").write_text(dedent(PROGRAM))
    return tmp_path


def test_a_job_is_told_whole_and_a_reader_resumes(folder: Path) -> None:
    with up(folder, "shop:beat") as service:
        with listening(service) as listener:
            id = send(service)
            eventually_here(lambda: len(listener.states_of(id)) == 3, "the job has ended")
            assert listener.states_of(id) == ["waiting", "running", "succeeded"]
            first = next(one.id for one in listener.told if one.kind == "job")
            eventually_here(lambda: pulses(listener.told), "a pulse tells of it")
        other = send(service)
        with listening(service, **{"Last-Event-ID": first}) as back:
            eventually_here(lambda: len(back.states_of(other)) == 3, "the other has ended")
            assert back.states_of(id) == ["running", "succeeded"]
            assert "reset" not in {one.kind for one in back.told}


def pulses(told: Sequence[Told]) -> list[Any]:
    return [one.data for one in told if one.kind == "pulse" and one.data["succeeded"]]


def test_a_drain_ends_streams_before_the_server_waits_for_them(folder: Path) -> None:
    with up(folder, "shop:beat") as service, listening(service) as one, listening(service) as other:
        id = send(service)
        eventually_here(lambda: len(one.states_of(id)) == 3, "the job has ended")
        service.process.send_signal(signal.SIGTERM)
        eventually_here(lambda: service.process.poll() is not None, "the process has ended")
        for listener in (one, other):
            listener.thread.join(PATIENCE)
            assert listener.has_ended
            assert listener.told[-1].kind == "bye"
        assert service.process.returncode == 0
        # What the server writes when it waited for open requests in vain.
        assert "graceful shutdown exceeded" not in service.log.read_text()


def test_streams_leave_room_for_requests(folder: Path) -> None:
    with (
        up(folder, "shop:beat", ONBEAT_API__CONNECTIONS_MAX="8") as service,
        listening(service),
        listening(service),
    ):
        status, answer = service.ask("/api/stream")
        assert (status, answer["error"]["code"]) == (429, "rate_limited")
        for _ in range(8):
            assert service.ask("/api/queues")[0] == 200


def test_what_another_process_runs_is_told_here(folder: Path) -> None:
    away = folder / "away"
    away.mkdir()
    (away / "shop.py").write_text(dedent(PROGRAM))
    with (
        postgres.database(f"onbeat_stream_{os.getpid()}") as url,
        up(folder, "shop:beat", "--store", url, "--roles", "api") as front,
        up(
            away, "shop:beat", "--store", url, "--roles", "dispatcher,worker,planner,maintenance"
        ) as back,
        listening(front) as listener,
    ):
        assert back.ready()
        eventually_here(lambda: told_from_away(front, listener), "the other process tells too")
        eventually_here(lambda: pulses(listener.told), "its jobs are counted")


def told_from_away(front: Up, listener: Listener) -> bool:
    """Whether a job was told whole, of which only the other process knows the end.

    It begins to tell once it has looked for readers.
    """
    id = send(front)
    eventually_here(lambda: "waiting" in listener.states_of(id), "the job is told here")
    return any(one.kind == "job" and one.data["to"] == "succeeded" for one in listener.told)
