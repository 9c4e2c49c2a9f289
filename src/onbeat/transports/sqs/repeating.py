"""Calls with up to ten entries, of which some may fail."""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Final, TypeVar

import msgspec

from onbeat.transports.sqs.letters import BATCH_MAX

if TYPE_CHECKING:  # the package of types is there for the checkers only
    from types_boto3_sqs.type_defs import BatchResultErrorEntryTypeDef

# Seconds before another try with the entries that SQS failed through a fault of its own.
PAUSES: Final = (0.1, 0.4, 1.0)

Item = TypeVar("Item")


class Refusal(msgspec.Struct, frozen=True, kw_only=True):
    """An entry of a call that SQS did not do. `ours` says that doing it again would not help."""

    entry: int
    code: str
    ours: bool


def refusals(failed: "Sequence[BatchResultErrorEntryTypeDef]") -> list[Refusal]:
    return [
        Refusal(entry=int(one["Id"]), code=one["Code"], ours=one["SenderFault"]) for one in failed
    ]


async def repeated(
    act: Callable[[Sequence[Item]], Awaitable[Sequence[Refusal]]], items: Sequence[Item]
) -> list[tuple[Item, Refusal]]:
    """Does it to all items of one call, again to those that SQS failed; returns what is left."""
    given_up: list[tuple[Item, Refusal]] = []
    refused = [(items[one.entry], one) for one in await act(items)]
    for pause in PAUSES:
        given_up += [pair for pair in refused if pair[1].ours]
        again = [item for item, one in refused if not one.ours]
        if not again:
            return given_up
        await asyncio.sleep(pause)
        refused = [(again[one.entry], one) for one in await act(again)]
    return given_up + refused


def tens(items: Sequence[Item]) -> Iterator[Sequence[Item]]:
    for start in range(0, len(items), BATCH_MAX):
        yield items[start : start + BATCH_MAX]


async def all_done(calls: Sequence[Coroutine[Any, Any, None]]) -> None:
    """Awaits all at once; the first that fails ends the others and raises its error as it is."""
    tasks = [asyncio.ensure_future(call) for call in calls]
    try:
        await asyncio.gather(*tasks)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
