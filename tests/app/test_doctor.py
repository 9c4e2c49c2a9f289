"""The checks of a service, as its pages show them."""

import asyncio
from datetime import timedelta
from pathlib import Path

import pytest

from onbeat.app import doctor as module
from onbeat.app.doctor import CHECKUP_PERIOD, Doctor
from onbeat.app.stores import open_store
from onbeat.ports.store import Finding
from onbeat.settings import Settings
from operations.harness import StoppedClock


def a_doctor(url: str, clock: StoppedClock) -> Doctor:
    return Doctor(Settings(store=url), open_store(url), clock)


async def test_a_file_is_examined_beside_the_service(tmp_path: Path) -> None:
    checkup = await a_doctor(f"sqlite:///{tmp_path}/beat.db", StoppedClock()).checkup()
    assert checkup is not None
    names = [one.name for one in checkup.findings]
    assert {"python", "clock", "integrity", "free space", "encryption at rest"} <= set(names)


async def test_it_is_examined_once_a_minute_at_most() -> None:
    clock = StoppedClock()
    doctor = a_doctor("memory://", clock)
    first = await doctor.checkup()
    clock.at += timedelta(seconds=CHECKUP_PERIOD - 1)
    assert await doctor.checkup() is first
    clock.at += timedelta(seconds=1)
    assert await doctor.checkup() is not first


async def test_nobody_waits_long_for_a_checkup_that_runs(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    ended = asyncio.Event()

    async def long(_work: object) -> list[Finding]:
        await ended.wait()
        return [Finding(name="integrity", ok=True, value="ok")]

    monkeypatch.setattr(module, "in_thread", long)
    monkeypatch.setattr(module, "PATIENCE", 0.01)
    doctor = a_doctor(f"sqlite:///{tmp_path}/beat.db", StoppedClock())
    assert await doctor.checkup() is None
    running = doctor.work
    assert await doctor.checkup() is None
    assert doctor.work is running, "there is one at a time"
    ended.set()
    monkeypatch.setattr(module, "PATIENCE", 60)
    checkup = await doctor.checkup()
    assert checkup is not None
    assert "integrity" in [one.name for one in checkup.findings]


async def test_a_store_that_is_away_is_a_finding(tmp_path: Path) -> None:
    doctor = a_doctor(f"sqlite:///{tmp_path}/gone/beat.db", StoppedClock())
    checkup = await doctor.checkup()
    assert checkup is not None
    assert [one.name for one in checkup.findings if not one.ok][:1] in (["store"], ["checks"])
