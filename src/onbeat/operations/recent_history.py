"""The history as it was read last: it changes every ten seconds, however many people look."""

from collections.abc import Awaitable, Callable, Hashable
from datetime import datetime
from typing import Any, Final, TypeVar
from weakref import WeakKeyDictionary

from onbeat.operations.context import OperationContext
from onbeat.ports.store import Store
from onbeat.rules.history import measured_until

Found = TypeVar("Found")

KEPT_MAX: Final = 32
"""What was asked of one store: an answer has at most 360 points, about 100 kB."""

_read: WeakKeyDictionary[Store, dict[Hashable, tuple[datetime, Any]]] = WeakKeyDictionary()


async def recent(
    context: OperationContext,
    key: Hashable,
    read: Callable[[datetime, Found | None], Awaitable[Found]],
) -> Found:
    """What `read` has found for this key, anew once there is a new slot.

    It is given the time, and what it found the last time.
    """
    now = context.clock.now()
    until = measured_until(now)
    kept = _read.setdefault(context.store, {})
    known = kept.get(key)
    if known is not None and known[0] == until:
        found: Found = known[1]
        return found
    found = await read(now, known[1] if known is not None and known[0] < until else None)
    kept.pop(key, None)
    kept[key] = until, found
    while len(kept) > KEPT_MAX:
        del kept[next(iter(kept))]
    return found
