"""Processes that each charge one invoice, and are killed at point N after the gateway's answer.

The points are before and after each statement to the database, up to and with the commit. A line of
its input is `WORLD JOBS STRIPE BRAINTREE INVOICE N`, and of its output the exit code and how many
points there were until then.
"""

import asyncio
import os
import signal
import sys
from contextlib import suppress
from datetime import timedelta
from typing import Any

import msgspec
from asyncmy.connection import Connection

from backoffice import charging
from onbeat import JobFailed, Options
from till import Till, build, running
from world import NOW, World

LEASE = timedelta(seconds=2)


def runtime(*queues: str) -> Any:
    """One that serves these queues only, or all; its lease is short, as it may be killed."""
    return msgspec.structs.replace(Options().runtime, lease=LEASE, queues=queues or None)


class Killer:
    def __init__(self, at: int) -> None:
        self.at = at
        self.points = 0
        self.victim: asyncio.Task[Any] | None = None

    def count(self) -> None:
        if self.victim is not None and asyncio.current_task() is self.victim:
            self.points += 1
            if self.points == self.at:
                os.kill(os.getpid(), signal.SIGKILL)

    def watch(self) -> None:
        settle: Any = charging.settle
        query: Any = Connection.query

        async def settled(*args: Any) -> Any:
            """The gateway has answered."""
            self.victim = asyncio.current_task()
            result = await settle(*args)
            self.victim = None
            return result

        async def counted(connection: Any, *args: Any, **more: Any) -> Any:
            self.count()
            result = await query(connection, *args, **more)
            self.count()
            return result

        setattr(charging, "settle", settled)  # noqa: B010
        setattr(Connection, "query", counted)  # noqa: B010


async def charge(till: Till, invoice: int, queue: str) -> None:
    async with running(till):
        job = await till.task.options(queue=queue).asend(invoice, NOW)
        with suppress(JobFailed):  # an answer too: the card is declined for good
            await job.aresult(timeout=30)


def child(line: str) -> int:
    """How many points there were."""
    url, jobs, stripe, braintree, invoice, at = line.split()
    killer = Killer(int(at))
    killer.watch()
    queue = f"victim-{invoice}"
    till = build(
        World(url),
        jobs,
        stripe=stripe,
        braintree=braintree,
        runtime=runtime(queue),
        sidecar=False,
    )
    asyncio.run(charge(till, int(invoice), queue))
    return killer.points


def serve() -> None:
    """Each line is a process to be: it costs no new interpreter."""
    for line in sys.stdin:
        reader, writer = os.pipe()
        id = os.fork()
        if not id:
            os.write(writer, str(child(line)).encode())
            os._exit(0)
        os.close(writer)
        _, status = os.waitpid(id, 0)
        points = os.read(reader, 20).decode() or "0"
        os.close(reader)
        sys.stdout.write(f"{os.waitstatus_to_exitcode(status)} {points}\n")
        sys.stdout.flush()


if __name__ == "__main__":
    serve()
