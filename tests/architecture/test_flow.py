"""How many files are given a job on its way, and that the page that draws the way names them.

A file counts where one of its functions is given the call, the job, its attempt or its settlement.
Clocks, ids, rows and commits are on the way too, but see no job.
"""

import re
import sys
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

from conditions import eventually
from interfaces.rest_client import RestClient
from onbeat import Call, Onbeat, Options
from onbeat.api.asgi import build_api
from onbeat.engine.options import RuntimeOptions
from onbeat.engine.running_attempt import RunningAttempt
from onbeat.engine.settler import EndedAttempt
from onbeat.model.job import Job
from onbeat.model.role import Role
from onbeat.model.target import HandlerTarget
from onbeat.ports.store import Settlement, SucceededAttempt

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src" / "onbeat"
PAGE = ROOT / "docs" / "explain" / "architecture.md"
FORMS = (Call, Job, HandlerTarget, RunningAttempt, EndedAttempt, SucceededAttempt, Settlement)
LOOPS = RuntimeOptions(roles=frozenset({Role.DISPATCHER, Role.WORKER}))


class Way:
    """The files whose functions are given a job while it is noted, and how often each is called."""

    def __init__(self) -> None:
        self.files: set[str] = set()
        self.calls: Counter[str] = Counter()
        self.is_noted = False

    def note(self, frame: FrameType, event: str, _: Any) -> None:
        path = Path(frame.f_code.co_filename)
        if not self.is_noted or event != "call" or not path.is_relative_to(SOURCE):
            return
        self.calls[frame.f_code.co_name] += 1
        if is_given(frame):
            self.files.add(path.relative_to(SOURCE).as_posix())


def is_given(frame: FrameType) -> bool:
    code = frame.f_code
    names = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
    return any(holds(frame.f_locals.get(name)) for name in names)


def holds(value: object) -> bool:
    if isinstance(value, list | tuple):
        return any(holds(one) for one in value)
    return isinstance(value, FORMS)


@pytest.fixture
def way() -> Iterator[Way]:
    way, before = Way(), sys.getprofile()
    threading.setprofile(way.note)
    sys.setprofile(way.note)
    yield way
    sys.setprofile(before)
    threading.setprofile(None)


@contextmanager
def noted(way: Way) -> Iterator[None]:
    way.is_noted = True
    yield
    way.is_noted = False


def test_a_send_passes_ten_files_at_most(way: Way, tmp_path: Path) -> None:
    with Onbeat(f"sqlite:///{tmp_path}/onbeat.db") as beat:

        @beat.task("work")
        def work(n: int) -> int: ...

        work.send(1)
        with noted(way):
            work.send(2)
    assert "app/sender.py" in way.files
    assert len(way.files) <= 10, way.files


async def test_claim_run_and_settle_pass_sixteen_files_at_most(way: Way, tmp_path: Path) -> None:
    beat = Onbeat(f"sqlite:///{tmp_path}/onbeat.db", options=Options(runtime=LOOPS))

    runs = []

    @beat.task("work")
    async def work() -> None:
        runs.append(1)

    async with beat:
        await (await work.asend()).aresult(60)
        worker = beat._running.runtime.worker
        await work.options(delay=0.2).asend()
        with noted(way):
            await eventually(lambda: len(runs) == 2 and not worker.running, "it is settled")
    assert {"engine/worker.py", "engine/settler.py"} <= way.files
    assert len(way.files) <= 16, way.files


async def test_a_request_reads_its_body_and_its_url_once(way: Way) -> None:
    client = RestClient(build_api(Onbeat("memory://").backend.context))
    body = {"name": "ping", "every": "1h", "callback_url": "https://example.com/ping"}
    with noted(way):
        answer = await client.post("/api/schedules", body)
    assert answer.status == 201
    assert [way.calls[name] for name in ("load_json", "decode_typed", "checked_url")] == [1, 1, 1]


def test_the_page_names_files_that_exist() -> None:
    text = PAGE.read_text()
    drawn = re.findall(r"(?<![\w/])([a-z_]+/[a-z_/]*[a-z_]+\.py)", text)
    assert len(drawn) > 20
    assert [name for name in drawn if not (SOURCE / name).exists()] == []
