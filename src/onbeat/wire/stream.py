"""The stream of server-sent events: its parameters, and each event as text."""

from collections.abc import Callable
from datetime import datetime
from typing import Annotated, Any, Final

import msgspec
from msgspec import UNSET, Meta, UnsetType

from onbeat.model.errors import Invalid
from onbeat.model.job import JobState
from onbeat.model.limits import LABEL_CHARS_MAX, NAME_CHARS_MAX
from onbeat.model.live import LiveEvent
from onbeat.wire.requests import IdForm
from onbeat.wire.values import schedule_id

RETRY: Final = b"retry: 2000\n\n"
COMMENT: Final = b":\n\n"
BYE: Final = b"event: bye\ndata: {}\n\n"
ID_CHARS_MAX: Final = 40


class StreamRequest(msgspec.Struct, frozen=True, kw_only=True):
    """`events` are kinds, separated by commas; `label` is `key:value`; `after` is an id."""

    events: Annotated[
        str,
        Meta(
            max_length=NAME_CHARS_MAX,
            description="Kinds separated by commas: job, schedule, queue, alert, bulk (these by"
            " default), pulse, changed",
        ),
    ] = "job,schedule,queue,alert,bulk"
    state: JobState | None = None
    queue: Annotated[str, Meta(max_length=NAME_CHARS_MAX)] | None = None
    task: Annotated[str, Meta(max_length=NAME_CHARS_MAX)] | None = None
    schedule_id: IdForm | None = None
    label: (
        Annotated[str, Meta(max_length=2 * LABEL_CHARS_MAX + 1, description="KEY:VALUE")] | None
    ) = None
    after: (
        Annotated[
            str, Meta(max_length=ID_CHARS_MAX, description="The id of the last event that came")
        ]
        | None
    ) = None


class JobEvent(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A job changed its state. A part that does not apply, or is not known, is left out."""

    id: str
    to: str
    at: datetime
    before: str | UnsetType = msgspec.field(default=UNSET, name="from")
    task: str | UnsetType = UNSET
    queue: str | UnsetType = UNSET
    attempt: int | UnsetType = UNSET
    cause: str | UnsetType = UNSET
    schedule_id: str | UnsetType = UNSET


class ChangeEvent(msgspec.Struct, frozen=True, kw_only=True):
    """A schedule or a queue changed; `to` is what was done, such as `paused`."""

    id: str
    to: str
    at: datetime


class AlertEvent(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What somebody should know of began, was told or ended; `id` is its key.

    For a silence that was made or ended `id` is its own.
    """

    id: str
    to: str
    at: datetime
    queue: str | UnsetType = UNSET


class BulkEvent(msgspec.Struct, frozen=True, kw_only=True):
    """A bulk got on: it has changed `done` jobs so far."""

    id: str
    to: str
    at: datetime
    done: int


class OldestDue(msgspec.Struct, frozen=True):
    seconds: float
    queue: str


class LatenessSpread(msgspec.Struct, frozen=True):
    """Seconds from due to start; None where nothing started."""

    p50: float | None
    p95: float | None


class PulseEvent(msgspec.Struct, frozen=True, kw_only=True):
    """What moved in the last `seconds`, and what stands now. None is not known."""

    at: datetime
    seconds: float
    started: int
    succeeded: int
    failed: int
    lateness: LatenessSpread
    oldest_due: OldestDue | None = None
    due: int | None = None
    running: int | None = None
    slots: int | None = None
    workers: int | None = None


class Changed(msgspec.Struct, frozen=True, kw_only=True):
    """At most 50 ids of each kind; `more` counts further changes, whose ids are not told.

    `logs` are jobs with new log lines.
    """

    jobs: tuple[str, ...]
    more: int
    schedules: tuple[str, ...]
    queues: tuple[str, ...]
    flows: tuple[str, ...]
    logs: tuple[str, ...]
    faults: tuple[str, ...]
    bulks: tuple[str, ...]
    workers: bool
    alerts: bool


def frame(kind: str, id: str, data: bytes) -> bytes:
    return b"id: %b\nevent: %b\ndata: %b\n\n" % (id.encode(), kind.encode(), data)


def gap(missed: int) -> bytes:
    return b'event: gap\ndata: {"missed":%d}\n\n' % missed


def reset(id: str) -> bytes:
    """Has an id, so that a reader that is cut off again at once resumes from here."""
    return frame("reset", id, b"{}")


def event_data(event: LiveEvent) -> bytes:
    return msgspec.json.encode(MAKERS.get(event.kind, change_event)(event))


def change_event(event: LiveEvent) -> ChangeEvent:
    return ChangeEvent(id=event.id, to=event.to, at=event.at)


def alert_event(event: LiveEvent) -> AlertEvent:
    return AlertEvent(id=event.id, to=event.to, at=event.at, queue=known(event.queue))


def bulk_event(event: LiveEvent) -> BulkEvent:
    return BulkEvent(id=event.id, to=event.to, at=event.at, done=event.done or 0)


def job_event(event: LiveEvent) -> JobEvent:
    return JobEvent(
        id=event.id,
        to=event.to,
        at=event.at,
        before=known(event.before),
        task=known(event.task),
        queue=known(event.queue),
        attempt=known(event.attempt),
        cause=known(event.cause),
        schedule_id=known(event.schedule_id),
    )


MAKERS: Final[dict[str, Callable[[LiveEvent], msgspec.Struct]]] = {
    "job": job_event,
    "alert": alert_event,
    "bulk": bulk_event,
}


def known(value: Any) -> Any:
    return UNSET if value is None else value


def read_kinds(text: str) -> frozenset[str]:
    return frozenset(part.strip() for part in text.split(","))


def read_label(text: str | None) -> tuple[str, str] | None:
    """Raises `Invalid` for a text without a colon; the value may have more of them."""
    if text is None:
        return None
    key, colon, value = text.partition(":")
    if not colon or not key:
        raise Invalid("label must be KEY:VALUE, as team:billing", "label")
    return key, value


def read_stream_schedule(text: str | None) -> str | None:
    return None if text is None else schedule_id(text, "schedule_id")


def read_place(text: str | None, boot: str) -> int | None:
    """The number in an id `BOOT.N` of this process; None for any other text."""
    own, dot, number = (text or "")[:ID_CHARS_MAX].partition(".")
    is_number = number.isascii() and number.isdigit()
    return int(number) if own == boot and dot and is_number else None
