"""Tasks that read events; the process of an isolated one imports this module to find it."""

from typing import Any

import msgspec

from onbeat import CURRENT, Context, Event, Onbeat, Retry

beat = Onbeat("memory://")
ONCE = Retry(attempts_max=1)


class Order(msgspec.Struct):
    order: int


@beat.task("first", retry=ONCE)
def first(event: Event[Any]) -> list[Any]:
    return [event.id, event.source, event.type, event.subject, event.extensions, event.data]


@beat.task("bare", retry=ONCE)
def bare(event: Event) -> Any:
    return event.data


@beat.task("bytes", retry=ONCE)
def of_bytes(event: Event[bytes]) -> str:
    return event.data.hex()


@beat.task("typed", retry=ONCE)
async def typed(event: Event[Order]) -> int:
    return event.data.order


@beat.task("all", retry=ONCE)
def all_of_them(factor: int, events: list[Event[Order]], context: Context = CURRENT) -> list[int]:
    assert [event.id for event in context.events] == [event.id for event in events]
    return [factor * event.data.order for event in events]


@beat.task("perhaps")
def perhaps(event: Event[Any] | None = None, word: str = "no") -> list[Any]:
    return [None if event is None else event.id, word]


@beat.task("context")
def in_context(context: Context) -> list[Any]:
    return [event.data for event in context.events]


@beat.task("isolated", isolation="process", retry=ONCE)
def isolated(context: Context, event: Event[Order]) -> list[int]:
    return [event.data.order, len(context.events)]
