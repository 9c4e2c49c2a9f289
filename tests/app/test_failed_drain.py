"""A drain that fails still ends what the program has started."""

import asyncio
import threading
from datetime import timedelta
from pathlib import Path

import pytest

from onbeat import Onbeat
from onbeat.engine.runtime import Runtime


async def test_a_drain_that_fails_leaves_no_loop_and_no_thread(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def drain(_self: Runtime, _grace: timedelta) -> int:
        raise RuntimeError("no drain")

    beat = Onbeat(f"sqlite:///{tmp_path}/onbeat.db")
    tasks, threads = asyncio.all_tasks(), set(threading.enumerate())
    await beat.start()
    assert asyncio.all_tasks() > tasks
    monkeypatch.setattr(Runtime, "drain", drain)
    with pytest.raises(RuntimeError, match="no drain"):
        await beat.stop()
    await beat.aclose()
    assert asyncio.all_tasks() == tasks
    left = {one.name for one in threading.enumerate() if one not in threads}
    assert {name for name in left if not name.startswith("asyncio_")} == set()
