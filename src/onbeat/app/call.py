"""Unsent calls: a target with the options of its job."""

import re
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Final, Generic, TypeVar

import msgspec

from onbeat.model.errors import Invalid
from onbeat.model.ids import JobId
from onbeat.model.job import Job
from onbeat.model.limits import (
    AFTER_MAX,
    KEY_CHARS_MAX,
    MEMORY_BYTES_MIN,
    NAME_CHARS_MAX,
    PRIORITY_MAX,
    PRIORITY_MIN,
)
from onbeat.model.retry import RetryPolicy
from onbeat.model.target import HandlerTarget, HttpTarget, Target, lane_of
from onbeat.rules.origins import with_credentials_of
from onbeat.rules.urls import checked_headers, checked_method, checked_secrets, checked_url
from onbeat.targets.handler import Isolation
from onbeat.wire.targets import MessageBody, message_target
from onbeat.wire.values import (
    job_id,
    read_instant,
    read_labels,
    read_name,
    read_queue_name,
    read_span,
    read_task,
)

Result_co = TypeVar("Result_co", covariant=True)
Value = TypeVar("Value")
MEMORY: Final = re.compile(r"(?P<number>\d{1,15})\s*(?P<unit>[KMG])?(i?B)?", re.IGNORECASE)
MEMORY_UNITS: Final = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30}
Span = timedelta | float | str
"""A timedelta, seconds, or text such as "90s", "1h30m" or "PT15M"."""


class JobOptions(msgspec.Struct, frozen=True, kw_only=True):
    """Options of a job in addition to its target; an option not given is None or the default."""

    queue: str = "default"
    priority: int = 0
    retry: RetryPolicy | None = None
    timeout: timedelta | None = None
    delay: timedelta | None = None
    run_at: datetime | None = None
    unique: str | None = None
    expires_in: timedelta | None = None
    after: tuple[JobId, ...] = ()
    labels: dict[str, str] = {}
    group: str | None = None


class Call(msgspec.Struct, Generic[Result_co], frozen=True, eq=False, gc=False):
    """A target and its options: `send` it, or put it on a schedule."""

    target: Target
    options: JobOptions

    def __repr__(self) -> str:
        return f"Call({lane_of(self.target)!r})"

    def job(self, id: str, now: datetime, retry: RetryPolicy) -> Job:
        """The job of this call when it is sent at `now`."""
        target = self.target
        if not isinstance(target, HandlerTarget):
            target = with_credentials_of(None, target)
        options = self.options
        due_at = options.run_at or (now + options.delay if options.delay else now)
        expires_at = due_at + options.expires_in if options.expires_in is not None else None
        return Job(
            id=JobId(id),
            target=target,
            created_at=now,
            due_at=due_at,
            queue=options.queue,
            priority=options.priority,
            unique=options.unique,
            retry=options.retry or retry,
            timeout=options.timeout,
            expires_at=expires_at,
            start_by=expires_at,
            after=options.after,
            labels=options.labels,
            group=options.group,
        )


def check_call(call: object) -> None:
    """Raises TypeError for other objects; a task without its arguments is the common mistake."""
    if not isinstance(call, Call):
        raise TypeError(
            f"{str(call)[:100]} is not a call; write TASK.call(arguments) or http(method, url)"
        )


def options(
    base: JobOptions | None = None,
    *,
    queue: str | None = None,
    priority: int | None = None,
    retry: RetryPolicy | None = None,
    timeout: Span | None = None,
    delay: Span | None = None,
    run_at: datetime | None = None,
    unique: str | None = None,
    expires_in: Span | None = None,
    after: tuple[JobId, ...] | None = None,
    labels: Mapping[str, str] | None = None,
    group: str | None = None,
) -> JobOptions:
    """`base` with the options given here. Raises `Invalid` naming the invalid option."""
    if run_at is not None and delay is not None:
        raise Invalid("give run_at or delay, not both", field="run_at")
    fields = {
        "queue": None if queue is None else queue_name_of("queue", queue),
        "priority": None if priority is None else checked_priority(priority),
        "retry": None if retry is None else require_kind("retry", retry, RetryPolicy, "Retry(...)"),
        "timeout": span("timeout", timeout),
        "delay": span("delay", delay),
        "run_at": instant("run_at", run_at),
        "unique": None if unique is None else name_of("unique", unique, chars_max=KEY_CHARS_MAX),
        "expires_in": span("expires_in", expires_in),
        "after": None if after is None else job_ids(after),
        "labels": None if labels is None else checked_labels(labels),
        "group": None if group is None else name_of("group", group),
    }
    given: dict[str, object] = {name: value for name, value in fields.items() if value is not None}
    # The later option wins: a task with a default delay can still be sent for a fixed time.
    if run_at is not None:
        given["delay"] = None
    if delay is not None:
        given["run_at"] = None
    return msgspec.structs.replace(base or JobOptions(), **given)


def require_kind(
    field: str, value: Value, kinds: type[object] | tuple[type[object], ...], message: str
) -> Value:
    """The value. Raises `Invalid` where it has another type: callers need not be type-checked."""
    if not isinstance(value, kinds) or isinstance(value, bool):
        raise Invalid(f"{field} must be {message}, not {value!r:.100}", field)
    return value


def checked_priority(value: int) -> int:
    require_kind("priority", value, int, "a whole number")
    if not PRIORITY_MIN <= value <= PRIORITY_MAX:
        raise Invalid(f"priority must be from {PRIORITY_MIN} to {PRIORITY_MAX}", field="priority")
    return value


def name_of(field: str, value: str, *, chars_max: int = NAME_CHARS_MAX) -> str:
    read_name(require_kind(field, value, str, "text"), field, chars_max=chars_max)
    if not is_storable(value):
        raise Invalid(f"{field} holds half a character, which no store can keep", field)
    return value


def task_name_of(field: str, value: str) -> str:
    return read_task(name_of(field, value), field)


def queue_name_of(field: str, value: str) -> str:
    return read_queue_name(name_of(field, value), field)


def checked_labels(labels: Mapping[str, str]) -> dict[str, str]:
    require_kind("labels", labels, Mapping, "a mapping of text to text")
    for text in (*labels.keys(), *labels.values()):
        require_kind("labels", text, str, "a mapping of text to text")
    if not all(map(is_storable, (*labels.keys(), *labels.values()))):
        raise Invalid("labels hold half a character, which no store can keep", "labels")
    return read_labels(dict(labels))


def is_storable(text: str) -> bool:
    """Whether the text can be encoded as UTF-8; file names may not be."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def job_ids(ids: Iterable[JobId]) -> tuple[JobId, ...]:
    # A single id would be taken character by character.
    require_kind("after", ids, (tuple, list, set, frozenset), "a tuple of ids of jobs")
    texts = (require_kind("after", id, str, "a tuple of ids of jobs") for id in ids)
    result = tuple(dict.fromkeys(job_id(text, "after") for text in texts))
    if len(result) > AFTER_MAX:
        raise Invalid(f"a job can wait for at most {AFTER_MAX} others", field="after")
    return result


def instant(name: str, value: datetime | None) -> datetime | None:
    """The instant in UTC, where adding times is exact."""
    if value is None:
        return None
    require_kind(name, value, datetime, "a datetime with a time zone")
    if value.tzinfo is None:
        raise Invalid(f"{name} needs a time zone, such as datetime.now(UTC)", field=name)
    return read_instant(value, name)


def span(name: str, value: Span | None) -> timedelta | None:
    if value is None:
        return None
    require_kind(
        name, value, (timedelta, int, float, str), "a timedelta, seconds or text such as 90s"
    )
    return read_span(value.total_seconds() if isinstance(value, timedelta) else value, name)


def isolation_of(isolation: str, memory: int | str | None) -> Isolation | None:
    """The isolation of a task. Raises `Invalid` naming the invalid option."""
    if isolation not in {"none", "process"}:
        raise Invalid(f"isolation must be none or process, not {isolation!r}", field="isolation")
    if isolation == "none":
        if memory is not None:
            raise Invalid("memory bounds a process; it needs isolation='process'", field="memory")
        return None
    return Isolation(None if memory is None else memory_bytes(memory))


def memory_bytes(value: int | str) -> int:
    """A number of bytes, or text such as 512MB or 2GiB; both units are powers of 1024."""
    match = MEMORY.fullmatch(str(value).strip())
    size = int(match["number"]) * MEMORY_UNITS[(match["unit"] or "").upper()] if match else 0
    if size < MEMORY_BYTES_MIN:
        raise Invalid(
            f"memory must be at least {MEMORY_BYTES_MIN >> 20}MB, as bytes or text such as 512MB",
            field="memory",
        )
    return size


def http(
    method: str,
    url: str,
    *,
    headers: Mapping[str, str] | None = None,
    body: str | None = None,
    json: object = None,
    secret: str | Sequence[str] | None = None,
) -> Call[object]:
    """A call of an HTTP endpoint. `json` sets its content type; `secret` signs (whsec_...).

    A list of secrets adds a signature for each. Raises `Invalid` for an invalid URL, method, header
    or secret.
    """
    if body is not None and json is not None:
        raise Invalid("give body or json, not both", field="json")
    sent = dict(headers or {})
    if json is not None:
        body = msgspec.json.encode(json).decode()
        if not any(name.lower() == "content-type" for name in sent):
            sent["Content-Type"] = "application/json"
    target = HttpTarget(
        url=checked_url(url),
        method=checked_method(method),
        headers=dict(checked_headers(sent)),
        body=body,
        secret=checked_secrets(secret),
    )
    return Call(target, JobOptions())


def message(
    to: str, queue: str, body: object = None, *, headers: Mapping[str, str] | None = None
) -> Call[None]:
    """A message for a queue or topic of the broker that the configuration names `to`.

    `body` is any JSON value; a str is sent as plain text. The job succeeds when the broker has
    confirmed the message, whose id is the job's. Raises `Invalid` naming the invalid argument.
    """
    try:
        text = msgspec.json.encode(body)
    except (TypeError, ValueError) as error:
        raise Invalid(f"body cannot be stored as JSON: {error}", field="body") from error
    header_values = dict(headers or {})
    form = MessageBody(to=to, queue=queue, body=msgspec.Raw(text), headers=header_values)
    return Call(message_target(form), JobOptions())
