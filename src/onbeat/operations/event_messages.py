"""Accepts events from a broker's queue."""

from collections.abc import Mapping
from itertools import count

from onbeat.model.errors import Unavailable
from onbeat.operations.context import OperationContext
from onbeat.operations.events import publish_body
from onbeat.operations.submissions import Origin, add_dead_letter
from onbeat.wire.broker_messages import EVENTS
from onbeat.wire.cloud_events import read_published


async def receive(
    context: OperationContext, message: bytes, *, key: str | None, headers: Mapping[str, str]
) -> None:
    """Store the event of a message, or its batch; an invalid message becomes a dead letter.

    With a `key`, which is the id of an event without one, a redelivered message adds nothing.
    Raises `Unavailable` when the store is away: the message has to be delivered again.
    """
    try:
        await store_message(context, message, key)
    except Unavailable:
        raise
    except Exception as error:  # noqa: BLE001  one bad message must not hold up the others
        origin = Origin(source=EVENTS, key=key, headers=headers)
        await add_dead_letter(context, message, origin, error)


async def store_message(context: OperationContext, message: bytes, key: str | None) -> None:
    """Raises `Invalid` for a message without valid events."""
    body, places = read_published(message, {}), count()

    def fresh_id() -> str:
        place = next(places)
        if key is None:
            return context.fresh_id()
        return key if place == 0 else f"{key}/{place}"

    await publish_body(context, body, fresh_id)
