"""The events of a job, as its handler sees them."""

import base64
import types
import typing
from collections.abc import Mapping
from datetime import datetime
from typing import Any, Generic, TypeVar

import msgspec

from onbeat.model import event as stored
from onbeat.model.errors import Invalid

Data = TypeVar("Data")


class HandlerEvent(msgspec.Struct, Generic[Data], frozen=True, kw_only=True):
    """An event with the attributes of CloudEvents 1.0.

    `data` has the type of the annotation, as in `Event[Order]`; data that is not JSON is bytes.
    """

    id: str
    source: str
    type: str
    time: datetime
    data: Data
    subject: str | None = None
    datacontenttype: str | None = None
    dataschema: str | None = None
    extensions: Mapping[str, str | int | bool] = {}


class EventKind(msgspec.Struct, frozen=True):
    """What a parameter for events asks for: one or all, and the type of their data."""

    data: Any = Any
    is_list: bool = False


def event_kind(annotation: Any) -> EventKind | None:
    """The kind for `Event`, `Event[T]`, a list of either, and one or None; None for any other."""
    if annotation is HandlerEvent:
        return EventKind()
    origin, args = typing.get_origin(annotation), typing.get_args(annotation)
    if origin is HandlerEvent:
        return EventKind(data=args[0])
    if origin is list:
        one = event_kind(args[0])
        return None if one is None or one.is_list else EventKind(one.data, is_list=True)
    if origin in {typing.Union, types.UnionType}:
        kinds = [event_kind(arg) for arg in args if arg is not type(None)]
        return kinds[0] if len(kinds) == 1 else None
    return None


def plain_event(event: stored.Event, decoder: msgspec.json.Decoder[Any]) -> HandlerEvent[Any]:
    """The event with its data decoded. Raises `Invalid` where the data does not fit."""
    return HandlerEvent(
        id=event.id,
        source=event.source,
        type=event.type,
        time=event.time,
        data=data_of(event, decoder),
        subject=event.subject,
        datacontenttype=event.datacontenttype,
        dataschema=event.dataschema,
        extensions=event.extensions,
    )


def data_of(event: stored.Event, decoder: msgspec.json.Decoder[Any]) -> Any:
    if event.data is not None and event.is_base64:
        return base64.b64decode(msgspec.json.decode(event.data, type=str))
    try:
        return decoder.decode(b"null" if event.data is None else event.data)
    except (msgspec.ValidationError, NotImplementedError) as error:
        raise Invalid(
            f"the data of event {event.id!r} does not fit the task: {error}", field="data"
        ) from error
