"""Calls that are not made yet: a target with what a job of it needs beside."""

import re
from collections.abc import Iterable, Mapping
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
from onbeat.model.target import HttpTarget, Target, lane_of
from onbeat.rules.urls import checked_headers, checked_method, checked_secret, checked_url
from onbeat.targets.handler import Isolation
from onbeat.wire.targets import MessageBody, message_target
from onbeat.wire.values import job_id, read_instant, read_labels, read_name, read_span

Result_co = TypeVar("Result_co", covariant=True)
Value = TypeVar("Value")
MEMORY: Final = re.compile(r"(?P<number>\d{1,15})\s*(?P<unit>[KMG])?(i?B)?", re.IGNORECASE)
MEMORY_UNITS: Final = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30}
Span = timedelta | float | str
"""A timedelta, seconds, or text such as "90s", "1h30m" or "PT15M"."""


class JobOptions(msgspec.Struct, frozen=True, kw_only=True):
    """What may be said of a job beside its target; what is not said is None or the default."""

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
    """A target and its options; `send` it, or hang it on a schedule."""

    target: Target
    options: JobOptions

    def __repr__(self) -> str:
        return f"Call({lane_of(self.target)!r})"

    def job(self, id: str, now: datetime, retry: RetryPolicy) -> Job:
        """The job that this call asks for when it is sent at `now`."""
        said = self.options
        due_at = said.run_at or (now + said.delay if said.delay else now)
        expires_at = due_at + said.expires_in if said.expires_in is not None else None
        return Job(
            id=JobId(id),
            target=self.target,
            created_at=now,
            due_at=due_at,
            queue=said.queue,
            priority=said.priority,
            unique=said.unique,
            retry=said.retry or retry,
            timeout=said.timeout,
            expires_at=expires_at,
            start_by=expires_at,
            after=said.after,
            labels=said.labels,
            group=said.group,
        )


def check_call(call: object) -> None:
    """Raises TypeError for what is no call; a task without its arguments is the common slip."""
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
    """`base` with what is said here. Raises `Invalid` naming the option that cannot be right."""
    if run_at is not None and delay is not None:
        raise Invalid("give run_at or delay, not both", field="run_at")
    said = {
        "queue": None if queue is None else name_of("queue", queue),
        "priority": None if priority is None else checked_priority(priority),
        "retry": None if retry is None else of_kind("retry", retry, RetryPolicy, "Retry(...)"),
        "timeout": span("timeout", timeout),
        "delay": span("delay", delay),
        "run_at": instant("run_at", run_at),
        "unique": None if unique is None else name_of("unique", unique, chars_max=KEY_CHARS_MAX),
        "expires_in": span("expires_in", expires_in),
        "after": None if after is None else job_ids(after),
        "labels": None if labels is None else checked_labels(labels),
        "group": None if group is None else name_of("group", group),
    }
    given: dict[str, object] = {name: value for name, value in said.items() if value is not None}
    # The later word counts: a task that waits by default can still be sent for a given time.
    if run_at is not None:
        given["delay"] = None
    if delay is not None:
        given["run_at"] = None
    return msgspec.structs.replace(base or JobOptions(), **given)


def of_kind(
    field: str, value: Value, kinds: type[object] | tuple[type[object], ...], said: str
) -> Value:
    """The value. Raises `Invalid` where it is of another kind: programs need not be typed."""
    if not isinstance(value, kinds) or isinstance(value, bool):
        raise Invalid(f"{field} must be {said}, not {value!r:.100}", field)
    return value


def checked_priority(value: int) -> int:
    of_kind("priority", value, int, "a whole number")
    if not PRIORITY_MIN <= value <= PRIORITY_MAX:
        raise Invalid(f"priority must be from {PRIORITY_MIN} to {PRIORITY_MAX}", field="priority")
    return value


def name_of(field: str, value: str, *, chars_max: int = NAME_CHARS_MAX) -> str:
    read_name(of_kind(field, value, str, "text"), field, chars_max=chars_max)
    if not is_keepable(value):
        raise Invalid(f"{field} holds half a character, which no store can keep", field)
    return value


def checked_labels(labels: Mapping[str, str]) -> dict[str, str]:
    of_kind("labels", labels, Mapping, "a mapping of text to text")
    for text in (*labels.keys(), *labels.values()):
        of_kind("labels", text, str, "a mapping of text to text")
    if not all(map(is_keepable, (*labels.keys(), *labels.values()))):
        raise Invalid("labels hold half a character, which no store can keep", "labels")
    return read_labels(dict(labels))


def is_keepable(text: str) -> bool:
    """Whether it can be written as UTF-8; names of files need not be."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def job_ids(ids: Iterable[JobId]) -> tuple[JobId, ...]:
    # One id would be taken letter by letter.
    of_kind("after", ids, (tuple, list, set, frozenset), "a tuple of ids of jobs")
    texts = (of_kind("after", id, str, "a tuple of ids of jobs") for id in ids)
    found = tuple(dict.fromkeys(job_id(text, "after") for text in texts))
    if len(found) > AFTER_MAX:
        raise Invalid(f"a job can wait for at most {AFTER_MAX} others", field="after")
    return found


def instant(name: str, value: datetime | None) -> datetime | None:
    """In UTC, where sums of times mean what they say."""
    if value is None:
        return None
    of_kind(name, value, datetime, "a datetime with a time zone")
    if value.tzinfo is None:
        raise Invalid(f"{name} needs a time zone, such as datetime.now(UTC)", field=name)
    return read_instant(value, name)


def span(name: str, value: Span | None) -> timedelta | None:
    if value is None:
        return None
    of_kind(name, value, (timedelta, int, float, str), "a timedelta, seconds or text such as 90s")
    return read_span(value.total_seconds() if isinstance(value, timedelta) else value, name)


def isolation_of(isolation: str, memory: int | str | None) -> Isolation | None:
    """Where a task runs. Raises `Invalid` naming the option that cannot be right."""
    if isolation not in {"none", "process"}:
        raise Invalid(f"isolation must be none or process, not {isolation!r}", field="isolation")
    if isolation == "none":
        if memory is not None:
            raise Invalid("memory bounds a process; it needs isolation='process'", field="memory")
        return None
    return Isolation(None if memory is None else memory_bytes(memory))


def memory_bytes(value: int | str) -> int:
    """A number of bytes, or text such as 512MB or 2GiB; both units count in powers of 1024."""
    found = MEMORY.fullmatch(str(value).strip())
    size = int(found["number"]) * MEMORY_UNITS[(found["unit"] or "").upper()] if found else 0
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
    secret: str | None = None,
) -> Call[object]:
    """A call of an HTTP endpoint. `json` is sent with its content type; `secret` signs (whsec_...).

    Raises `Invalid` when URL, method, headers or secret cannot be right.
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
        secret=None if secret is None else checked_secret(secret),
    )
    return Call(target, JobOptions())


def message(
    to: str, queue: str, body: object = None, *, headers: Mapping[str, str] | None = None
) -> Call[None]:
    """A message for a queue or topic of the broker that the configuration names `to`.

    `body` is anything that JSON can hold; a str is sent as that text. The job succeeds when the
    broker has confirmed the message, whose id is the job's. Raises `Invalid` for what cannot be
    sent, naming it.
    """
    try:
        text = msgspec.json.encode(body)
    except (TypeError, ValueError) as error:
        raise Invalid(f"body cannot be stored as JSON: {error}", field="body") from error
    said = dict(headers or {})
    form = MessageBody(to=to, queue=queue, body=msgspec.Raw(text), headers=said)
    return Call(message_target(form), JobOptions())
