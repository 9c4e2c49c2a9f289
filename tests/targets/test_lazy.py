"""A runner that is slow to load, and is made when the first job needs it."""

import asyncio
import subprocess
import sys

from onbeat.targets.http import HttpRunner
from onbeat.targets.http_options import HttpOptions
from onbeat.targets.lazy import LazyRunner
from targets.runs import CLOCK, a_run, a_runner
from targets.scripted_http_server import ScriptedServer

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


def test_a_program_without_callbacks_does_not_load_what_makes_them() -> None:
    subprocess.run([sys.executable, "-c", IDLE], check=True, timeout=60)


async def test_calls_that_begin_together_share_one_runner_that_is_closed_with_it() -> None:
    made: list[HttpRunner] = []
    async with ScriptedServer() as sink, a_runner() as inner:
        await inner.close()

        def make() -> HttpRunner:
            made.append(inner)
            return inner

        late = LazyRunner(make)
        await late.open()
        assert not made
        await asyncio.gather(*(late.run(a_run(sink.url("/hook"))) for _ in range(3)))
        assert len(sink.received) == 3
        assert made == [inner]
        await late.close()
        assert not inner.connectors


async def test_one_that_was_never_needed_is_closed_all_the_same() -> None:
    made = False

    def make() -> HttpRunner:
        nonlocal made
        made = True
        return HttpRunner(CLOCK, HttpOptions())

    late = LazyRunner(make)
    await late.open()
    await late.close()
    assert not made
