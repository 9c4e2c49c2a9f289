import os
import signal
from collections.abc import AsyncIterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from conditions import eventually
from engine.harness import RecordingTelemetry
from onbeat import Onbeat, Options
from onbeat.app.composition import sidecar_of
from onbeat.app.sidecar import RESTART_SECONDS, ProcessSidecar, sidecar_for
from onbeat.app.sidecar_process import PATIENCE_MIN
from onbeat.app.virtual_clock import ManualClock
from onbeat.model.errors import Unavailable
from onbeat.ports.sidecar import NO_SIDECAR
from onbeat.rules.liveness import STAND_IN_SHARE
from onbeat.stores.memory import MemoryStore
from onbeat.stores.sqlite.store import SqliteStore
from onbeat.testing.build import NOW, a_worker

LEASE = 1.0


class SidecarHarness:
    def __init__(self, store: Any, url: str) -> None:
        self.store = store
        self.clock, self.told = ManualClock(NOW), RecordingTelemetry()
        self.sidecar = ProcessSidecar(url, self.clock, self.told)
        self.row = a_worker(lease_seconds=LEASE, beat=7)

    async def beat(self) -> Any:
        rows = {row.id: row for row in await self.store.workers()}
        return rows[self.row.id].beat if self.row.id in rows else 0


@pytest.fixture
async def bench(tmp_path: Path) -> AsyncIterator[Any]:
    store = SqliteStore(str(tmp_path / "onbeat.db"))
    await store.open()
    bench = SidecarHarness(store, store.url)
    yield bench
    bench.sidecar.close()
    await store.close()


async def test_it_beats_for_a_worker_of_which_it_hears_nothing(bench: Any) -> None:
    await bench.store.heartbeat(bench.row)
    bench.sidecar.report_life(bench.row)

    async def risen() -> Any:
        return await bench.beat() >= bench.row.beat + 2

    await eventually(risen, "it beats")
    assert bench.sidecar.last_beat() >= bench.row.beat + 1
    silence = [seconds for (seconds,) in bench.told.of("interpreter_held")]
    assert silence
    assert min(silence) >= LEASE * STAND_IN_SHARE


async def test_what_it_writes_is_the_row_that_it_was_told(bench: Any) -> None:
    row = replace(bench.row, lanes=("a", "b"), queues=("q",), concurrency=3)
    bench.sidecar.report_life(row)
    await eventually(bench.beat, "it beats")
    (result,) = await bench.store.workers()
    assert replace(result, beat=row.beat, beat_at=row.beat_at, running=row.running) == row


async def test_it_beats_for_every_row_of_its_process(bench: Any) -> None:
    carrier = replace(bench.row, id="carrier:one")
    bench.sidecar.report_life(bench.row)
    bench.sidecar.report_life(carrier)

    async def both() -> Any:
        return {row.id for row in await bench.store.workers()} == {bench.row.id, carrier.id}

    await eventually(both, "both rows beat")


async def test_it_has_loaded_what_a_short_lease_leaves_no_time_for(tmp_path: Path) -> None:
    """The driver's library is in its memory, although its worker was never silent."""
    bench = SidecarHarness(None, f"sqlite:///{tmp_path}/none/onbeat.db")
    hasty = replace(bench.row, lease_seconds=PATIENCE_MIN / STAND_IN_SHARE - 0.1)
    try:
        bench.sidecar.report_life(hasty)
        maps = Path(f"/proc/{bench.sidecar.pid}/maps")

        def loaded() -> bool:
            bench.sidecar.report_life(hasty)
            return "apsw" in maps.read_text()

        await eventually(loaded, "it has the driver")
        assert not bench.told.of("interpreter_held")
    finally:
        bench.sidecar.close()


async def test_after_its_end_no_row_comes_back(bench: Any) -> None:
    bench.sidecar.report_life(bench.row)
    await eventually(bench.beat, "it beats")
    bench.sidecar.close()
    await bench.store.forget_workers([bench.row.id])
    bench.sidecar.report_life(bench.row)
    assert bench.sidecar.pid is None
    assert await bench.beat() == 0


async def test_one_that_was_killed_is_started_again_after_a_while(bench: Any) -> None:
    bench.sidecar.report_life(bench.row)
    first = bench.sidecar.pid
    os.kill(first, signal.SIGKILL)
    await eventually(
        lambda: (bench.sidecar.last_beat(), bench.sidecar.pid)[1] is None, "it is missed"
    )
    bench.sidecar.report_life(bench.row)
    assert bench.sidecar.pid is None
    bench.clock.set(NOW + timedelta(seconds=RESTART_SECONDS))
    bench.sidecar.report_life(bench.row)
    assert bench.sidecar.pid not in {None, first}


async def test_a_beat_that_it_could_not_send_is_told(tmp_path: Path) -> None:
    bench = SidecarHarness(None, f"sqlite:///{tmp_path}/none/onbeat.db")
    bench.sidecar.report_life(bench.row)
    try:
        await eventually(
            lambda: (bench.sidecar.last_beat(), bench.told.of("loop_failed"))[1], "it is told"
        )
    finally:
        bench.sidecar.close()
    (name, error), *_ = bench.told.of("loop_failed")
    assert name == "sidecar"
    assert isinstance(error, Unavailable)
    assert "cannot be created" in str(error)


# Who has one.


def test_a_store_that_others_can_open_has_one(tmp_path: Path) -> None:
    beat = Onbeat(f"sqlite:///{tmp_path}/onbeat.db")
    assert isinstance(sidecar_of(beat.backend), ProcessSidecar)
    elsewhere = sidecar_of(Onbeat("postgresql://user:secret@host/d").backend)
    assert isinstance(elsewhere, ProcessSidecar)
    assert elsewhere.url.count("secret") == 1


@pytest.mark.parametrize(
    "beat",
    [
        Onbeat("memory://"),
        Onbeat(store=MemoryStore()),
        Onbeat("postgresql://user@host/d", store=MemoryStore()),
        Onbeat("postgresql://user@host/d", options=Options(sidecar=False)),
    ],
)
def test_a_store_that_no_other_process_can_open_by_name_has_none(beat: Onbeat) -> None:
    assert sidecar_of(beat.backend) is NO_SIDECAR


@pytest.mark.parametrize("executable", ["", "/usr/bin/uwsgi", None])
def test_a_program_that_is_no_plain_interpreter_starts_itself_no_second_time(
    monkeypatch: pytest.MonkeyPatch, executable: str | None
) -> None:
    monkeypatch.setattr("sys.executable", executable)
    assert sidecar_for("sqlite:///x", ManualClock(NOW), RecordingTelemetry()) is NO_SIDECAR
