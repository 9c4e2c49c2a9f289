"""A program whose jobs go over a broker, and the journals it keeps outside its store.

`send` makes it a sender of numbered jobs until it is stopped, with a schedule that fires five times
a second; anything else are the words of `onbeat up`. Journals are as in `app.py`.
"""

import asyncio
import itertools
import os
import sys
from datetime import timedelta
from pathlib import Path

from onbeat import Context, Onbeat, Options, every
from onbeat.cli.main import main
from onbeat.engine.options import RuntimeOptions
from onbeat.model.errors import Unavailable

PACE = 0.02
NAME = f"process-{os.getpid()}"

beat = Onbeat(
    Path("store").read_text(),
    options=Options(runtime=RuntimeOptions(horizon=timedelta(seconds=2))),
)


def journal(file: str, *words: object) -> None:
    """One write of one line: it is there whole or not at all."""
    with open(file, "ab", buffering=0) as lines:  # noqa: PTH123  the handle is the point
        lines.write((" ".join(map(str, words)) + "\n").encode())
        os.fsync(lines.fileno())


@beat.task("work")
async def work(context: Context, seconds: float) -> str:
    journal("began", context.job_id, context.attempt, context.token, NAME)
    await asyncio.sleep(seconds)
    journal("ended", context.job_id, context.attempt, context.token, NAME)
    return NAME


@beat.task("fire")
async def fire(context: Context) -> None:
    assert context.occurrence is not None
    journal("fired", context.occurrence.isoformat(), context.job_id, context.token, NAME)


async def send() -> None:
    await beat.schedules.aput("fire", every("0.2s"), fire.call(), catch_up="all")
    sys.stdout.write("sending\n")
    sys.stdout.flush()
    for number in itertools.count():
        try:
            job = await work.asend((0.0, 0.01, 0.05)[number % 3])
        except Unavailable:
            journal("refused", number)
        else:
            journal("accepted", job.id)
        await asyncio.sleep(PACE)


if __name__ == "__main__":
    if sys.argv[1] == "send":
        asyncio.run(send())
    else:
        sys.argv[1:] = ["up", __file__, *sys.argv[1:]]
        main()
