"""What this process tells of itself."""

import time
from functools import partial
from pathlib import Path

import pytest

from onbeat.app.system import SystemClock, resident_bytes


def test_a_process_knows_how_much_it_holds(monkeypatch: pytest.MonkeyPatch) -> None:
    held = resident_bytes()
    assert held is not None
    assert 5_000_000 < held < 10**11, "bytes, not pages"
    block = bytearray(b"x" * 64_000_000)
    more = resident_bytes()
    assert more is not None
    assert more - held > len(block) // 2

    def unreadable(_path: Path) -> str:
        raise OSError

    monkeypatch.setattr(Path, "read_text", unreadable)
    assert resident_bytes() is None


def test_the_clock_of_leases_goes_on_while_the_machine_is_suspended() -> None:
    """A process that slept for an hour must not trust leases that ran out meanwhile."""
    reading = SystemClock.monotonic
    assert isinstance(reading, partial)
    assert reading.func is time.clock_gettime
    assert reading.args == (time.CLOCK_BOOTTIME,)
    before = time.clock_gettime(time.CLOCK_BOOTTIME)
    assert before <= reading() <= time.clock_gettime(time.CLOCK_BOOTTIME)
