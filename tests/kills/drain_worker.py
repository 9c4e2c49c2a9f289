"""A worker whose handler writes each attempt down, and does nothing else.

A line is written before anything goes on, so it is there after SIGKILL; see `read_attempts`.
"""

import asyncio
import os
import sys
import time
import uuid
from pathlib import Path

from kills.attempt_log import pack
from onbeat import Context, Onbeat
from onbeat.app.signals import wait_for_signal

name = sys.argv[1]
beat = Onbeat(Path("store").read_text())
log = os.open(f"{name}.attempts", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)


@beat.task("work")
async def work(context: Context) -> None:
    os.write(log, pack(uuid.UUID(context.job_id).bytes, context.token, time.time_ns() // 1_000))


asyncio.run(wait_for_signal(beat.start, beat.aclose))
