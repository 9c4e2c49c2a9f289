"""Calls with up to ten entries, where single entries may fail."""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Final, TypeVar

import msgspec

from onbeat.transports.sqs.messages import BATCH_MAX

if TYPE_CHECKING:  # the package of types is installed for type checkers only
    from types_boto3_sqs.type_defs import BatchResultErrorEntryTypeDef

# Seconds before a retry of the entries that failed through a fault of SQS.
PAUSES: Final = (0.1, 0.4, 1.0)

Item = TypeVar("Item")


class FailedEntry(msgspec.Struct, frozen=True, kw_only=True):
    """An entry that SQS did not process. `ours`: the fault is ours, and a retry would not help."""

    entry: int
    code: str
    ours: bool


def failed_entries(failed: "Sequence[BatchResultErrorEntryTypeDef]") -> list[FailedEntry]:
    return [
        FailedEntry(entry=int(one["Id"]), code=one["Code"], ours=one["SenderFault"])
        for one in failed
    ]


async def retry_failed(
    act: Callable[[Sequence[Item]], Awaitable[Sequence[FailedEntry]]], items: Sequence[Item]
) -> list[tuple[Item, FailedEntry]]:
    """Calls `act`, and again for entries that failed through SQS; returns those that still fail."""
    given_up: list[tuple[Item, FailedEntry]] = []
    refused = [(items[one.entry], one) for one in await act(items)]
    for pause in PAUSES:
        given_up += [pair for pair in refused if pair[1].ours]
        again = [item for item, one in refused if not one.ours]
        if not again:
            return given_up
        await asyncio.sleep(pause)
        refused = [(again[one.entry], one) for one in await act(again)]
    return given_up + refused


def in_tens(items: Sequence[Item]) -> Iterator[Sequence[Item]]:
    for start in range(0, len(items), BATCH_MAX):
        yield items[start : start + BATCH_MAX]


async def all_done(calls: Sequence[Coroutine[Any, Any, None]]) -> None:
    """Awaits all at once; the first that fails cancels the others and raises its error."""
    tasks = [asyncio.ensure_future(call) for call in calls]
    try:
        await asyncio.gather(*tasks)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
