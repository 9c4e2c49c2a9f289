"""What the fleet under attack runs: `onbeat up program.py`, with journals in the working directory.

Every line is on the disk before anything goes on. Instants are of the monotonic clock, which all
processes of one machine share.
"""

import asyncio
import os
import threading
import time
from pathlib import Path

from chaos.journals import journal
from onbeat import Context, Onbeat, Retry, every

NAME = os.environ["CHAOS_NAME"]
SOON = Retry(attempts_max=5, delay="50ms", delay_max="500ms")

beat = Onbeat(Path("store").read_text())


@beat.task("work", retry=SOON)
async def work(context: Context, number: int, seconds: float) -> int:
    """Answers with its token, so that a result of another attempt shows."""
    journal(Path("began"), context.job_id, context.token, NAME, time.monotonic())
    await asyncio.sleep(seconds)
    journal(Path("ended"), context.job_id, context.token, NAME, time.monotonic())
    return context.token


@beat.task("poison", retry=SOON)
def poison(context: Context, number: int) -> None:
    """Ends its process from a thread of its own."""
    journal(Path("began"), context.job_id, context.token, NAME, time.monotonic())
    threading.Timer(0.2, os._exit, (1,)).start()
    time.sleep(60)


@beat.schedule(every("0.5s"), key="fire", catch_up="all")
async def fire(context: Context) -> int:
    journal(Path("began"), context.job_id, context.token, NAME, time.monotonic())
    journal(Path("ended"), context.job_id, context.token, NAME, time.monotonic())
    return context.token
