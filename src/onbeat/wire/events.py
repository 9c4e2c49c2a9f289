"""Wire records of events: what requests name, and how events are shown."""

from datetime import datetime
from typing import Annotated, Any

import msgspec
from msgspec import UNSET, Meta, UnsetType

from onbeat.model.event import Event, StoredEvent
from onbeat.model.limits import EVENT_NAME_CHARS_MAX, PAGE_LIMIT_DEFAULT, PAGE_LIMIT_MAX
from onbeat.wire.answer import AnswerRecord, plain_value
from onbeat.wire.cloud_events import PublishBody
from onbeat.wire.hidden import NOT_SHOWN_JSON
from onbeat.wire.values import value_or_unset

NAME = Meta(max_length=EVENT_NAME_CHARS_MAX)
PatternForm = Annotated[
    str, NAME, Meta(description="Exact, or its beginning with a `*` at the end")
]
IdForm = Annotated[str, NAME, Meta(description="The id that its sender gave it")]
SourceForm = Annotated[str, NAME, Meta(description="Its source, where several have this id")]


class PublishEvents(msgspec.Struct, frozen=True):
    event: PublishBody


class FindEvents(msgspec.Struct, frozen=True, kw_only=True):
    type: PatternForm | None = None
    source: PatternForm | None = None
    limit: Annotated[int, Meta(ge=1, le=PAGE_LIMIT_MAX, description="Items in a page")] = (
        PAGE_LIMIT_DEFAULT
    )
    cursor: Annotated[str, Meta(description="Where the page before ended")] | None = None


class EventById(msgspec.Struct, frozen=True, kw_only=True):
    id: IdForm
    source: SourceForm | None = None


class PublishedEvent(AnswerRecord, frozen=True, kw_only=True):
    """`created` is false where an event with this id and source was stored before."""

    id: str
    created: bool


class PublishAnswer(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """`id` and `created` of one event, or `events` for a batch."""

    id: str | UnsetType = UNSET
    created: bool | UnsetType = UNSET
    events: tuple[PublishedEvent, ...] | UnsetType = UNSET


class VerdictInfo(msgspec.Struct, frozen=True, kw_only=True):
    """What a schedule made of the event: `job_id`, or in `reason` why none.

    Both where a throttle counted it for the job of an earlier event. One without `schedule_id`
    names a job that waited for the event, and was freed; after the first hundred, or of a hundred
    other reasons, one says how many are left out.
    """

    schedule_id: str | None
    job_id: str | None
    reason: str | None


class EventInfo(AnswerRecord, frozen=True, kw_only=True):
    """An event; `…` stands for the data of a sensitive one. `routed_at` is null until it is decided
    what it makes; `jobs` are the ids of the jobs that it made, joined or freed, `verdicts` are of
    all schedules whose type and source matched, and of freed jobs.
    """

    id: str
    source: str
    type: str
    time: datetime
    subject: str | UnsetType = UNSET
    datacontenttype: str | UnsetType = UNSET
    dataschema: str | UnsetType = UNSET
    data_json: Annotated[msgspec.Raw | UnsetType, Meta(description="Any JSON")] = msgspec.field(
        name="data", default=UNSET
    )
    data_base64: str | UnsetType = UNSET
    extensions: dict[str, str | int | bool] | UnsetType = UNSET
    received_at: datetime
    routed_at: datetime | None
    jobs: tuple[str, ...]
    verdicts: tuple[VerdictInfo, ...]

    @property
    def data(self) -> Any:
        """In plain JSON values; UNSET without data, or with those of `data_base64`."""
        return plain_value(self.data_json)


class EventListAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """Newest first; `cursor` leads to the next page and is null on the last."""

    events: tuple[EventInfo, ...]
    limit: int
    cursor: str | None


def event_answer(stored: StoredEvent) -> EventInfo:
    event, verdicts = shown_event(stored.event), stored.verdicts
    text = base64_of(event)
    return EventInfo(
        id=event.id,
        source=event.source,
        type=event.type,
        time=event.time,
        subject=value_or_unset(event.subject),
        datacontenttype=value_or_unset(event.datacontenttype),
        dataschema=value_or_unset(event.dataschema),
        data_json=value_or_unset(event.data) if text is None else UNSET,
        data_base64=value_or_unset(text),
        extensions=event.extensions or UNSET,
        received_at=stored.received_at,
        routed_at=stored.routed_at,
        jobs=tuple(dict.fromkeys(one.job_id for one in verdicts if one.job_id is not None)),
        verdicts=tuple(
            VerdictInfo(schedule_id=one.schedule_id or None, job_id=one.job_id, reason=one.reason)
            for one in verdicts
        ),
    )


def shown_event(event: Event) -> Event:
    """The event without the data of a sensitive one."""
    if event.data is None or not event.is_sensitive:
        return event
    return msgspec.structs.replace(event, data=NOT_SHOWN_JSON, is_base64=False)


def base64_of(event: Event) -> str | None:
    """The data of another type than JSON, in base64."""
    if not event.is_base64 or event.data is None:
        return None
    return msgspec.json.decode(event.data, type=str)
