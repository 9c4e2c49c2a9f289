"""Unsent calls: a target with the options of its job."""

import re
from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, Final, Generic, TypedDict, TypeVar, Unpack

import msgspec
from msgspec.structs import replace

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


class InheritedOptions(TypedDict, total=False):
    """Options that a schedule passes on to its jobs. None stands for an option not given."""

    queue: str | None
    priority: int | None
    retry: RetryPolicy | None
    timeout: Span | None
    labels: Mapping[str, str] | None


class TaskOptions(InheritedOptions, total=False):
    """Options of a task, for all of its jobs."""

    group: str | None


class CallOptions(TaskOptions, total=False):
    """Options of a call, for its one job."""

    delay: Span | None
    run_at: datetime | None
    unique: str | None
    expires_in: Span | None
    after: tuple[JobId, ...] | None


NEVER: Final = datetime.min.replace(tzinfo=UTC)
TEMPLATE: Final = Job(id=JobId(""), target=HandlerTarget(""), created_at=NEVER, due_at=NEVER)


class JobOptions(msgspec.Struct, frozen=True, kw_only=True):
    """Options of a job in addition to its target, as they were checked.

    `job` is a copy of `TEMPLATE` with the options that are fields of a job. Copying it is faster
    than making a job of all fields.
    """

    job: Job = TEMPLATE
    retry: RetryPolicy | None = None
    delay: timedelta | None = None
    run_at: datetime | None = None
    expires_in: timedelta | None = None


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
        return replace(
            options.job,
            id=JobId(id),
            target=target,
            created_at=now,
            due_at=due_at,
            retry=options.retry or retry,
            expires_at=expires_at,
            start_by=expires_at,
        )


def check_call(call: object) -> None:
    """Raises TypeError for other objects; a task without its arguments is the common mistake."""
    if not isinstance(call, Call):
        raise TypeError(
            f"{str(call)[:100]} is not a call; write TASK.call(arguments) or http(method, url)"
        )


def options(base: JobOptions | None = None, **given: Unpack[CallOptions]) -> JobOptions:
    """`base` with the options given here. Raises `Invalid` naming the invalid option."""
    if given.get("run_at") is not None and given.get("delay") is not None:
        raise Invalid("give run_at or delay, not both", field="run_at")
    fields = read_options(given)
    # The later option wins: a task with a default delay can still be sent for a fixed time.
    if "run_at" in fields:
        fields["delay"] = None
    elif "delay" in fields:
        fields["run_at"] = None
    chosen = base or JobOptions()
    own = {name: fields.pop(name) for name in JobOptions.__struct_fields__ if name in fields}
    return replace(chosen, job=replace(chosen.job, **fields), **own)


def read_options(given: Mapping[str, object]) -> dict[str, Any]:
    """The options that are not None, checked in the order of `READERS`."""
    return {
        name: read(name, given[name])
        for name, read in READERS.items()
        if given.get(name) is not None
    }


def check_keywords(function: str, given: Iterable[str], known: Container[str]) -> None:
    """Raises TypeError for an unknown one, as Python does where keywords are written out."""
    for name in given:
        if name not in known:
            raise TypeError(f"{function}() got an unexpected keyword argument {name!r}")


def require_kind(
    field: str, value: Value, kinds: type[object] | tuple[type[object], ...], message: str
) -> Value:
    """The value. Raises `Invalid` where it has another type: callers need not be type-checked."""
    if not isinstance(value, kinds) or isinstance(value, bool):
        raise Invalid(f"{field} must be {message}, not {value!r:.100}", field)
    return value


def priority_of(field: str, value: int) -> int:
    require_kind(field, value, int, "a whole number")
    if not PRIORITY_MIN <= value <= PRIORITY_MAX:
        raise Invalid(f"{field} must be from {PRIORITY_MIN} to {PRIORITY_MAX}", field)
    return value


def policy_of(field: str, value: RetryPolicy) -> RetryPolicy:
    return require_kind(field, value, RetryPolicy, "Retry(...)")


def key_of(field: str, value: str) -> str:
    return name_of(field, value, chars_max=KEY_CHARS_MAX)


def name_of(field: str, value: str, *, chars_max: int = NAME_CHARS_MAX) -> str:
    read_name(require_kind(field, value, str, "text"), field, chars_max=chars_max)
    if not is_storable(value):
        raise Invalid(f"{field} holds half a character, which no store can keep", field)
    return value


def task_name_of(field: str, value: str) -> str:
    return read_task(name_of(field, value), field)


def queue_name_of(field: str, value: str) -> str:
    return read_queue_name(name_of(field, value), field)


def labels_of(field: str, value: Mapping[str, str]) -> dict[str, str]:
    require_kind(field, value, Mapping, "a mapping of text to text")
    texts = (*value.keys(), *value.values())
    for text in texts:
        require_kind(field, text, str, "a mapping of text to text")
    if not all(map(is_storable, texts)):
        raise Invalid(f"{field} hold half a character, which no store can keep", field)
    return read_labels(dict(value), field)


def is_storable(text: str) -> bool:
    """Whether the text can be encoded as UTF-8; file names may not be."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def job_ids(field: str, ids: Iterable[JobId]) -> tuple[JobId, ...]:
    # A single id would be taken character by character.
    require_kind(field, ids, (tuple, list, set, frozenset), "a tuple of ids of jobs")
    texts = (require_kind(field, id, str, "a tuple of ids of jobs") for id in ids)
    result = tuple(dict.fromkeys(job_id(text, field) for text in texts))
    if len(result) > AFTER_MAX:
        raise Invalid(f"a job can wait for at most {AFTER_MAX} others", field)
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


READERS: Final[Mapping[str, Callable[[str, Any], object]]] = {
    "queue": queue_name_of,
    "priority": priority_of,
    "retry": policy_of,
    "timeout": span,
    "delay": span,
    "run_at": instant,
    "unique": key_of,
    "expires_in": span,
    "after": job_ids,
    "labels": labels_of,
    "group": name_of,
}


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
