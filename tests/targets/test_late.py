"""A runner that is slow to load, and is made when the first job needs it."""

import asyncio
import subprocess
import sys

from onbeat.targets.http import HttpRunner
from onbeat.targets.late import LateRunner
from targets.runs import CLOCK, a_run, a_runner
from targets.sink import Sink

IDLE = """
import asyncio, sys
from onbeat import Onbeat

async def main():
    beat = Onbeat("memory://")
    @beat.task("work")
    async def work() -> None: ...
    async with beat:
        await (await work.asend()).aresult()
        sys.exit("aiohttp" in sys.modules)

asyncio.run(main())
"""


def test_a_program_without_callbacks_does_not_load_what_makes_them():
    subprocess.run([sys.executable, "-c", IDLE], check=True, timeout=60)


async def test_calls_that_begin_together_share_one_runner_that_is_closed_with_it():
    made: list[HttpRunner] = []
    async with Sink() as sink, a_runner() as inner:
        await inner.close()

        def make():
            made.append(inner)
            return inner

        late = LateRunner(make)
        await late.open()
        assert not made
        await asyncio.gather(*(late.run(a_run(sink.url("/hook"))) for _ in range(3)))
        assert len(sink.received) == 3
        assert made == [inner]
        await late.close()
        assert not inner.sessions


async def test_one_that_was_never_needed_is_closed_all_the_same():
    made = False

    def make():
        nonlocal made
        made = True
        return HttpRunner(CLOCK)

    late = LateRunner(make)
    await late.open()
    await late.close()
    assert not made
