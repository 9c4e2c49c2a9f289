"""A program that fans out to many rows, and is killed while it does.

It says where it is at every few rows. Half of the rows go to a queue that is paused: their jobs
wait, while those of the others run and end.
"""

import sys
from collections.abc import AsyncIterator, Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

from onbeat import Context, Onbeat, Options
from onbeat.engine.options import RuntimeOptions

rows, kind = int(sys.argv[1]), sys.argv[2]

STEP = 250

beat = Onbeat(
    Path("store").read_text(),
    options=Options(
        drain_timeout=timedelta(seconds=0.05),
        runtime=RuntimeOptions(concurrency=1) if kind == "run alone" else RuntimeOptions(),
    ),
)


@beat.task("charge")
async def charge(row: int) -> None: ...


@beat.task("bill.cursor")
async def bill_with_cursor(context: Context) -> AsyncIterator[Any]:
    first = context.saved or 0
    say("begins at", first)
    for row in range(first, rows):
        yield call(row)
        if row % 7 == 0:
            context.save(row + 1)
        if row % STEP == 0:
            say("row", row)


@beat.task("bill.keys")
def bill_with_keys() -> Iterator[Any]:
    say("begins at", 0)
    for row in range(rows):
        yield charge.options(unique=f"row {row}", queue=queue(row)).call(row)
        if row % STEP == 0:
            say("row", row)


@beat.task("bill.plain")
async def bill_plainly() -> AsyncIterator[Any]:
    say("begins at", 0)
    for row in range(rows):
        yield call(row)
        if row % STEP == 0:
            say("row", row)


def call(row: Any) -> Any:
    return charge.options(queue=queue(row)).call(row)


def queue(row: int) -> str:
    return "parked" if row % 2 else "default"


def say(*words: object) -> None:
    sys.stdout.write(" ".join(map(str, words)) + ";\n")
    sys.stdout.flush()


if kind == "send":
    beat.queues.pause("parked")
    for task in (bill_with_cursor, bill_with_keys, bill_plainly):
        if task.name == sys.argv[3]:
            say("sent", task.send().id)
    beat.backend.wait_for(beat.aclose())
    beat.backend.portal.close()
else:
    beat.run()
