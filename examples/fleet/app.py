"""The program of the fleet: the tasks of its workers, and one that fans out."""

import asyncio
from collections.abc import AsyncIterator

from onbeat import Call, Context, Onbeat, every

beat = Onbeat("postgresql://postgres@127.0.0.1/onbeat_fleet")


@beat.task("tick")
async def tick() -> str:
    return "tock"


@beat.task("charge", queue="billing")
async def charge(account: int) -> int:
    await asyncio.sleep(0.01)
    return account * 100


@beat.schedule(every("10s"), key="fleet-billing", overlap="skip")
async def bill_everybody(context: Context) -> AsyncIterator[Call[int]]:
    """A run over all accounts: each becomes one job, also after a crash."""
    for account in range(50):
        yield charge.call(account)
        context.progress(account + 1, 50)
