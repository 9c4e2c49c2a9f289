"""A process of a fleet whose jobs stay, and one of which holds the interpreter."""

import asyncio
import ctypes
import sys
import time
from datetime import timedelta
from pathlib import Path

from onbeat import Context, Onbeat, Options
from onbeat.engine.options import RuntimeOptions
from onbeat.model.role import Role

NAME, LEASE, ROLES = sys.argv[1:4] if len(sys.argv) > 3 else ("child", "15", "")
LIBRARY = ctypes.PyDLL(None)  # a call keeps the interpreter's lock, as many a C library does

beat = Onbeat(
    Path("store").read_text(),
    options=Options(
        runtime=RuntimeOptions(
            roles=frozenset(map(Role, ROLES.split(","))) if ROLES else frozenset(),
            concurrency=20,
            lease=timedelta(seconds=float(LEASE)),
        ),
        drain_timeout=timedelta(seconds=5),
        sidecar="alone" not in sys.argv,
    ),
)


def note(journal: str, *words: object) -> None:
    with Path(journal).open("a") as file:
        file.write(" ".join(map(str, (*words, NAME))) + "\n")


async def there(name: str) -> None:
    """Returns once the file exists."""
    while not Path(name).exists():  # noqa: ASYNC110, ASYNC240  somebody else makes it
        await asyncio.sleep(0.02)


@beat.task("stay")
async def stay(context: Context) -> str:
    note("began", context.job_id, context.token)
    await there("go")
    return NAME


@beat.task("stay.apart", isolation="process")
def stay_apart() -> str:
    note("began", "apart", 1)
    while not Path("go").exists():
        time.sleep(0.02)
    return NAME


@beat.task("hold")
def hold(seconds: float) -> str:
    note("began", "hold", 1)
    LIBRARY.usleep(int(seconds * 1e6))
    return NAME


@beat.task("quick")
async def quick() -> str:
    return NAME


async def main() -> None:
    async with beat:
        sys.stdout.write("ready\n")
        sys.stdout.flush()
        await there("end")


if __name__ == "__main__":
    asyncio.run(main())
