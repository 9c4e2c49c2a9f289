"""A program without an HTTP client says so, once there is a callback that waits for one."""

import logging
import sys
from collections.abc import Callable

import pytest

from onbeat import Onbeat, every, http
from onbeat.model.ids import WorkerId
from onbeat.model.worker import WorkerRecord

CALL = http("GET", "http://shop.example/")

Warnings = Callable[[], list[str]]


@pytest.fixture
def beat(monkeypatch: pytest.MonkeyPatch) -> Onbeat:
    """As after `pip install onbeat`."""
    monkeypatch.setitem(sys.modules, "aiohttp", None)
    return Onbeat("memory://")


@pytest.fixture
def warnings(caplog: pytest.LogCaptureFixture) -> Warnings:
    caplog.set_level(logging.WARNING, "onbeat.jobs")
    return lambda: [str(record.msg) for record in caplog.records if "callbacks" in str(record.msg)]


async def test_a_job_that_waits_at_the_start_is_told(beat: Onbeat, warnings: Warnings) -> None:
    await beat.asend(CALL)
    assert warnings() == []
    async with beat:
        (warning,) = warnings()
        assert "pip install 'onbeat[http]'" in warning
        await beat.asend(CALL)
        assert len(warnings()) == 1


async def test_a_schedule_that_waits_at_the_start_is_told(beat: Onbeat, warnings: Warnings) -> None:
    await beat.schedules.aput("ping", every("1h"), CALL)
    async with beat:
        assert len(warnings()) == 1


@pytest.mark.parametrize("later", ["job", "schedule"])
async def test_a_later_one_is_told_too(beat: Onbeat, warnings: Warnings, later: str) -> None:
    async with beat:
        assert warnings() == []
        if later == "job":
            await beat.asend(CALL)
        else:
            await beat.schedules.aput("ping", every("1h"), CALL)
        assert len(warnings()) == 1


async def test_nothing_is_told_while_another_worker_runs_them(
    beat: Onbeat, warnings: Warnings
) -> None:
    now = await beat.backend.now()
    other = WorkerRecord(
        id=WorkerId("other"), host="h", pid=1, started_at=now, beat_at=now, lanes=("@http",),
        lease_seconds=600,
    )  # fmt: skip
    await beat.backend.store.heartbeat(other)
    await beat.asend(CALL)
    async with beat:
        assert warnings() == []


async def test_a_program_with_a_client_says_nothing(warnings: Warnings) -> None:
    beat = Onbeat("memory://")
    async with beat:
        await beat.schedules.aput("ping", every("1h"), CALL)
        assert warnings() == []
