"""The events of a job, as its handler sees them."""

import base64
import types
import typing
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, Generic, TypeVar

import msgspec

from onbeat.model import event as stored
from onbeat.model.errors import Invalid
from onbeat.model.ids import JobId
from onbeat.model.job import Job
from onbeat.model.target import HandlerTarget
from onbeat.rules.encryption import needs_decryption
from onbeat.rules.job_events import JOB_TYPES
from onbeat.targets.predecessors import PriorJob, earlier_job
from onbeat.wire.hidden import hidden_target

Data = TypeVar("Data")


class EventJob(msgspec.Struct, frozen=True, kw_only=True):
    """The job whose end an event tells, with its arguments in plain JSON values.

    `task` is None for callbacks, messages and notices. Of a sensitive or encrypted job `args` is
    `["…"]`.
    """

    id: str
    task: str | None
    args: list[Any]
    kwargs: dict[str, Any]


class HandlerEvent(msgspec.Struct, Generic[Data], frozen=True, kw_only=True):
    """An event with the attributes of CloudEvents 1.0.

    `data` has the type of the annotation, as in `Event[Order]`; data that is not JSON is bytes.
    `job` is the one whose end it tells: None for other events, and where that job was pruned.
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
    job: EventJob | None = None


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


def plain_event(
    event: stored.Event, decoder: msgspec.json.Decoder[Any], ended: Sequence[PriorJob] = ()
) -> HandlerEvent[Any]:
    """The event with its data decoded, and its job if it is among those that ended.

    Raises `Invalid` where the data does not fit.
    """
    id = ended_job_of(event)
    job = None if id is None else next((one for one in ended if one.id == id), None)
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
        job=None if job is None else event_job(job),
    )


def ended_job_of(event: stored.Event) -> JobId | None:
    """The id of the job whose end the event tells."""
    is_end = event.source == stored.OWN_SOURCE and event.type in JOB_TYPES
    return JobId(event.subject) if is_end and event.subject is not None else None


def ended_jobs(events: Sequence[stored.Event], known: Mapping[JobId, Job]) -> tuple[PriorJob, ...]:
    """The known jobs whose ends the events tell, with their arguments."""
    ids = dict.fromkeys(map(ended_job_of, events))
    return tuple(with_arguments(known[id]) for id in ids if id is not None and id in known)


def with_arguments(job: Job) -> PriorJob:
    target = job.target
    if not isinstance(target, HandlerTarget):
        return earlier_job(job)
    shown = hidden_target(target) if job.sensitive or needs_decryption(target) else target
    assert isinstance(shown, HandlerTarget), "hiding keeps the kind"
    return msgspec.structs.replace(earlier_job(job), args=shown.args, kwargs=shown.kwargs)


def event_job(job: PriorJob) -> EventJob:
    return EventJob(
        id=job.id,
        task=None if job.lane.startswith("@") else job.lane,
        args=msgspec.json.decode(job.args),
        kwargs=msgspec.json.decode(job.kwargs),
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
