"""A program that is killed again and again, and the journals it keeps outside its store.

It sends numbered jobs, and writes an id down only once it was acknowledged; its schedule fires
five times a second. Every attempt writes down that it began and that it ended. What is written down
is on the disk before anything goes on. The file `store` says where everything is kept. A process
that is told no roles has all. With `crowd` many jobs are in flight at once.
"""

import asyncio
import itertools
import os
import sys
from datetime import timedelta
from pathlib import Path

from conditions import eventually_here
from onbeat import Context, Onbeat, Options, every
from onbeat.app.signals import wait_for_signal
from onbeat.engine.options import RuntimeOptions
from onbeat.model.errors import Unavailable
from onbeat.model.role import Role

name, lease = sys.argv[1], float(sys.argv[2])
does = set(sys.argv[3].split(","))

CROWD = "crowd" in does
PACE = 0.3 if CROWD else 0.005
TOGETHER = 24 if CROWD else 1
SECONDS = (0.2, 0.4, 0.8) if CROWD else (0.0, 0.005, 0.03)

beat = Onbeat(
    Path("store").read_text(),
    options=Options(
        runtime=RuntimeOptions(
            roles=frozenset(Role) & does or frozenset(Role),
            concurrency=100 if CROWD else 20,
            lease=timedelta(seconds=lease),
            horizon=timedelta(seconds=2),
        ),
        drain_timeout=timedelta(seconds=0.3),
    ),
)


def journal(file: str, *words: object) -> None:
    """One write of one line: it is there whole or not at all."""
    with open(file, "ab", buffering=0) as lines:  # noqa: PTH123  the handle is the point
        lines.write((" ".join(map(str, words)) + "\n").encode())
        os.fsync(lines.fileno())


@beat.task("work")
async def work(context: Context, seconds: float) -> str:
    journal("began", context.job_id, context.attempt, context.token, name)
    await asyncio.sleep(seconds)
    journal("ended", context.job_id, context.attempt, context.token, name)
    return name


@beat.task("stay")
def stay(context: Context) -> str:
    """Runs until a file says that this process may go on; in a thread, which nothing can stop."""
    journal("began", context.job_id, context.attempt, context.token, name)
    eventually_here(Path(f"go-{name}").exists, "it may go on", within=3600.0)
    journal("ended", context.job_id, context.attempt, context.token, name)
    return name


@beat.task("fire")
async def fire(context: Context) -> None:
    assert context.occurrence is not None
    journal("fired", context.occurrence.isoformat(), context.job_id, context.token, name)


async def produce() -> None:
    for number in itertools.count():
        await asyncio.gather(*(send(number + n) for n in range(TOGETHER)))
        await asyncio.sleep(PACE)


async def send(number: int) -> None:
    try:
        job = await work.asend(SECONDS[number % len(SECONDS)])
    except Unavailable:
        journal("refused", number)
    else:
        journal("accepted", job.id)


def say(word: str) -> None:
    sys.stdout.write(f"{word}\n")
    sys.stdout.flush()


async def start() -> None:
    await beat.start()
    say("runs")


async def main() -> None:
    if "fire" in does:
        await beat.schedules.aput("fire", every("0.2s"), fire.call(), catch_up="all")
    if "produce" in does:
        producers = [asyncio.create_task(produce()) for _ in range(3)]
    if "long" in does:
        journal("accepted", (await stay.asend()).id)
    say("ready")
    if "work" in does:
        await wait_for_signal(start, beat.aclose)
    else:
        await asyncio.gather(*producers)
    for producer in producers if "produce" in does else []:
        producer.cancel()


asyncio.run(main())
