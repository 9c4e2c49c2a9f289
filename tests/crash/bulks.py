"""A process that only maintains the store named in the file `store`, until it is killed."""

import asyncio
from pathlib import Path

from onbeat import Onbeat, Options
from onbeat.app.signals import wait_for_signal
from onbeat.engine.options import RuntimeOptions
from onbeat.model.role import Role

beat = Onbeat(
    Path("store").read_text(),
    options=Options(runtime=RuntimeOptions(roles=frozenset({Role.MAINTENANCE}))),
)


async def main() -> None:
    """It ends by the signal."""

    async def begin() -> None:
        await beat.start()
        print("ready", flush=True)  # noqa: T201  the test waits for it

    await wait_for_signal(begin, beat.aclose)


asyncio.run(main())
