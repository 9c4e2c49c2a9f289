"""What processes of every version run: only names that all of them have."""

import asyncio
import os
from pathlib import Path

from onbeat import Context, Onbeat, every

NAME = f"process-{os.getpid()}"

beat = Onbeat(Path("store").read_text())


def journal(file: str, *words: object) -> None:
    """One write of one line: it is there whole or not at all."""
    with open(file, "ab", buffering=0) as lines:  # noqa: PTH123  the handle is the point
        lines.write((" ".join(map(str, words)) + "\n").encode())


@beat.task("work")
async def work(context: Context, seconds: float) -> str:
    journal("began", context.job_id, context.attempt, context.token, NAME)
    await asyncio.sleep(seconds)
    journal("ended", context.job_id, context.attempt, context.token, NAME)
    return NAME


@beat.schedule(every("0.2s"), key="fire", catch_up="all")
async def fire(context: Context) -> None:
    assert context.occurrence is not None
    journal("fired", context.occurrence.isoformat(), context.job_id, context.token, NAME)
