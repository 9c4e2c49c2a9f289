"""Unsent calls: a target with the options of its job."""

from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, Final, Generic, Literal, Protocol, Self, TypedDict, TypeVar, Unpack, cast

import msgspec
from msgspec.structs import replace

from onbeat.app.predicates import (
    ConditionText,
    WindowText,
    condition_of,
    sensitive_of,
    window_of,
)
from onbeat.model.errors import Invalid
from onbeat.model.flow import Awaited
from onbeat.model.held_key import ALWAYS
from onbeat.model.ids import JobId
from onbeat.model.job import Edge, Job
from onbeat.model.limits import (
    AFTER_MAX,
    KEY_CHARS_MAX,
    NAME_CHARS_MAX,
    PRIORITY_MAX,
    PRIORITY_MIN,
)
from onbeat.model.retry import RetryPolicy
from onbeat.model.target import HandlerTarget, HttpTarget, Target, lane_of
from onbeat.ports.running_cause import running_cause
from onbeat.ports.tracing import active_trace
from onbeat.rules.callback_policy import (
    checked_connect_timeout,
    checked_redirects,
    checked_success,
)
from onbeat.rules.flows import Linked, link
from onbeat.rules.origins import with_credentials_of
from onbeat.rules.urls import checked_headers, checked_method, checked_secrets, checked_url
from onbeat.rules.windows import opening_at_or_after
from onbeat.wire.commands import command_target
from onbeat.wire.options import ALWAYS_TEXT, read_awaited, read_job_name
from onbeat.wire.targets import MessageBody, NotifyBody, message_target, notify_target
from onbeat.wire.values import (
    MOMENT,
    job_id,
    joined_labels,
    read_instant,
    read_labels,
    read_name,
    read_queue_name,
    read_span,
    read_task,
)

Result_co = TypeVar("Result_co", covariant=True)
Value = TypeVar("Value")
Span = timedelta | float | str
"""A timedelta, seconds, or text such as "90s", "1h30m" or "PT15M"."""


class InheritedOptions(TypedDict, total=False):
    """Options that a schedule passes on to its jobs. None stands for an option not given."""

    queue: str | None
    priority: int | None
    retry: RetryPolicy | None
    timeout: Span | None
    condition: ConditionText | None
    window: WindowText | Sequence[WindowText] | None
    sensitive: bool | None
    labels: Mapping[str, str] | None


class TaskOptions(InheritedOptions, total=False):
    """Options of a task, for all of its jobs."""

    group: str | None
    unique_for: Span | Literal["always"] | None


class HasId(Protocol):
    """A sent job."""

    @property
    def id(self) -> JobId: ...


class After(msgspec.Struct, frozen=True, eq=False, gc=False):
    """A job that another comes after, and the end of it that is needed.

    `of` is its call, its id, or the name of a call of the same list; "sent" is all that are sent
    with it.
    """

    of: "Call[Any] | str"
    on: Edge = Edge.SUCCESS


def on_failure(other: "Call[Any] | HasId | str") -> After:
    """For `after`: the job runs if that one fails."""
    return after_of("after", other, Edge.FAILURE)


def on_end(other: "Call[Any] | HasId | str") -> After:
    """For `after`: the job runs when that one has ended, however it ended."""
    return after_of("after", other, Edge.END)


class CallOptions(TaskOptions, total=False):
    """Options of a call, for its one job."""

    delay: Span | None
    run_at: datetime | None
    unique: str | None
    expires_in: Span | None
    name: str | None
    after: "Call[Any] | HasId | After | str | Iterable[Call[Any] | HasId | After | str] | None"
    on: Literal["success", "failure", "end"] | None


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
    after: tuple[After, ...] = ()
    on: Edge = Edge.SUCCESS

    @property
    def awaited(self) -> tuple[After, ...]:
        """`after`, with the end `on` for each that has none of its own."""
        if self.on is Edge.SUCCESS:
            return self.after
        return tuple(with_end(one, self.on) for one in self.after)


class Call(msgspec.Struct, Generic[Result_co], frozen=True, eq=False, gc=False):
    """A target and its options: `send` it, or put it on a schedule."""

    target: Target
    options: JobOptions

    def __repr__(self) -> str:
        return f"Call({lane_of(self.target)!r})"

    def with_options(self, **given: Unpack[CallOptions]) -> Self:
        """The same call with these options of its job; what is not given stays.

        Raises `Invalid` naming the invalid option, TypeError for an unknown one.
        """
        check_keywords("Call.with_options", given, CallOptions.__annotations__)
        return replace(self, options=options(self.options, **given))

    def job(
        self,
        id: str,
        now: datetime,
        retry: RetryPolicy,
        linked: Linked | None = None,
        flow: JobId | None = None,
    ) -> Job:
        """The job of this call when it is sent at `now`, as a member of the flow.

        `linked` is what it comes after, with its flow. Without it, raises `Invalid` if it comes
        after a call that is not sent yet.
        """
        target = self.target
        if not isinstance(target, HandlerTarget):
            target = with_credentials_of(None, target)
        options = self.options
        due_at = options.run_at or (now + options.delay if options.delay else now)
        expires_at = due_at + options.expires_in if options.expires_in is not None else None
        if options.job.window:
            due_at = opening_at_or_after(options.job.window, due_at)
        if options.after:
            linked = linked or link_ids(options.awaited)
        trace = active_trace()
        job = replace(
            options.job,
            id=JobId(id),
            target=target,
            created_at=now,
            due_at=due_at,
            retry=options.retry or retry,
            expires_at=expires_at,
            start_by=expires_at,
            flow=flow,
            cause=running_cause(),
            traceparent=None if trace is None else trace.parent,
            tracestate=None if trace is None else trace.state,
        )
        if linked is None:
            return job
        return replace(
            job,
            after=linked.after,
            edges=linked.edges,
            flow=linked.flow,
            awaits_flow=linked.awaits_flow,
        )


def link_ids(after: Iterable[After]) -> Linked:
    """What a call comes after that is sent alone."""
    return link([Awaited(sent_before(one), one.on) for one in after], {}, "after")


def sent_before(after: After) -> str:
    if isinstance(after.of, Call):
        raise Invalid(f"{after.of} is not sent yet; send both calls in one list", "after")
    return after.of


def check_call(call: object) -> None:
    """Raises TypeError for other objects; a task without its arguments is the common mistake."""
    if not isinstance(call, Call):
        raise TypeError(
            f"{str(call)[:100]} is not a call; write TASK.call(arguments) or http(method, url)"
        )


def check_calls(calls: Iterable[object]) -> None:
    """Raises TypeError for other objects, and for a text, which is a sequence of its characters."""
    for call in (calls,) if isinstance(calls, str | bytes) else calls:
        check_call(call)


def options(base: JobOptions | None = None, **given: Unpack[CallOptions]) -> JobOptions:
    """`base` with the options given here; labels are added, and win over those of the same name.

    Raises `Invalid` naming the invalid option.
    """
    if given.get("run_at") is not None and given.get("delay") is not None:
        raise Invalid("give run_at or delay, not both", field="run_at")
    fields = read_options(given)
    # The later option wins: a task with a default delay can still be sent for a fixed time.
    if "run_at" in fields:
        fields["delay"] = None
    elif "delay" in fields:
        fields["run_at"] = None
    chosen = base or JobOptions()
    if "on" in fields and not fields.get("after", chosen.after):
        raise Invalid("on says which end of the jobs in after is needed; give after too", "on")
    if "labels" in fields:
        fields["labels"] = joined_labels(chosen.job.labels, fields["labels"], "labels")
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


def afters_of(field: str, value: Any) -> tuple[After, ...]:
    is_one = not isinstance(value, (tuple, list, set, frozenset))
    several = (value,) if is_one else cast("Iterable[Any]", value)
    result = tuple(after_of(field, one, Edge.SUCCESS) for one in several)
    if len(result) > AFTER_MAX:
        raise Invalid(f"a job can wait for at most {AFTER_MAX} others", field)
    return result


def after_of(field: str, value: Any, on: Edge) -> After:
    """Raises `Invalid` for what is neither a call nor a job nor its id or name."""
    match value:
        case After():
            return value
        case Call():
            return After(value, on)  # pyright: ignore[reportUnknownArgumentType]
        case str():
            return After(read_awaited(name_of(field, value), field), on)
        case _ if isinstance(id := getattr(value, "id", None), str):
            return After(job_id(id, field), on)
        case _:
            raise Invalid(
                f"{field} must be a call or its name, a sent job or its id, or several,"
                f" not {value!r:.100}",
                field,
            )


def edge_of(field: str, value: str) -> Edge:
    if value not in {*Edge}:
        raise Invalid(f"{field} must be success, failure or end, not {value!r:.100}", field)
    return Edge(value)


def with_end(after: After, on: Edge) -> After:
    """With the end that `on` names, unless it has one of its own."""
    return After(after.of, on) if after.on is Edge.SUCCESS else after


def job_name_of(field: str, value: str) -> str:
    name_of(field, value)
    return read_job_name(value, field) or value


def instant(name: str, value: datetime | None) -> datetime | None:
    """The instant in UTC, where adding times is exact."""
    if value is None:
        return None
    require_kind(name, value, datetime, "a datetime with a time zone")
    if value.tzinfo is None:
        raise Invalid(f"{name} needs a time zone, such as datetime.now(UTC)", field=name)
    return read_instant(value, name)


def instants(filters: Mapping[str, Any]) -> dict[str, Any]:
    """The filters of a listing, with `since` and `until` read by `instant`."""
    return {
        name: instant(name, value) if name in {"since", "until"} else value
        for name, value in filters.items()
    }


def span(name: str, value: Span | None) -> timedelta | None:
    if value is None:
        return None
    require_kind(
        name, value, (timedelta, int, float, str), "a timedelta, seconds or text such as 90s"
    )
    return read_span(value.total_seconds() if isinstance(value, timedelta) else value, name)


def timeout_of(name: str, value: Span | None) -> timedelta | None:
    """A span that is not empty: without a limit is None."""
    result = span(name, value)
    return None if result is None else read_span(result.total_seconds(), name, least=MOMENT)


def unique_for(name: str, value: Span) -> timedelta | None:
    if value in {ALWAYS_TEXT, ALWAYS}:
        return ALWAYS
    result = span(name, value)
    if not result:
        raise Invalid(f"{name} must be longer than nothing, or 'always'", name)
    return result


READERS: Final[Mapping[str, Callable[[str, Any], object]]] = {
    "queue": queue_name_of,
    "priority": priority_of,
    "retry": policy_of,
    "timeout": timeout_of,
    "delay": span,
    "run_at": instant,
    "unique": key_of,
    "unique_for": unique_for,
    "expires_in": span,
    "name": job_name_of,
    "after": afters_of,
    "on": edge_of,
    "labels": labels_of,
    "condition": condition_of,
    "window": window_of,
    "sensitive": sensitive_of,
    "group": name_of,
}


def http(
    method: str,
    url: str,
    *,
    headers: Mapping[str, str] | None = None,
    body: str | None = None,
    json: object = None,
    secret: str | Sequence[str] | None = None,
    success: str | Sequence[int | str] | None = None,
    redirects: int = 0,
    connect_timeout: Span | None = None,
) -> Call[object]:
    """A call of an HTTP endpoint. `json` sets its content type; `secret` signs (whsec_...).

    A list of secrets adds a signature for each. `success` are the statuses that count as success,
    such as `[200, "3xx"]`, or `"any"`; 2xx by default. `redirects` is how many are followed.
    `connect_timeout` limits each connection, beside the timeout of the job. Raises `Invalid` that
    names the invalid argument.
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
        success=checked_success(success),
        redirects=checked_redirects(redirects),
        connect_timeout=checked_connect_timeout(span("connect_timeout", connect_timeout)),
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


def command(
    program: str,
    *args: str,
    env: Mapping[str, str] | None = None,
    cwd: str | None = None,
    stdin: str | None = None,
) -> Call[dict[str, object]]:
    """A program for a worker's machine, by its absolute path, with its arguments; no shell runs.

    It has few variables beside `env`, and `stdin` as UTF-8. The result is `{"exit_code": 0,
    "output": "..."}`; another exit code fails. Raises `Invalid` naming the invalid argument.
    """
    argv = (program, *args)
    return Call(command_target(argv, dict(env or {}), cwd, stdin, ""), JobOptions())


class NoticeContent(TypedDict, total=False):
    """What people are told. None stands for an argument not given."""

    title: str | None
    text: str | None
    html: str | None
    template: str | None
    data: Mapping[str, object] | None


class NoticeOptions(NoticeContent, CallOptions, total=False):
    """What people are told, and the options of the jobs."""


def notify(channel: str, to: str | None = None, **given: Unpack[NoticeOptions]) -> Call[None]:
    """A notice for one recipient over a channel that the configuration names.

    `title`, `text` and `html` may be Liquid, which reads `data` and what the job is made for;
    `template` names one of the configuration instead. Further keywords are options of the job,
    which succeeds when the channel has taken the notice. Raises `Invalid` naming the argument.
    """
    check_keywords("notify", given, NoticeOptions.__annotations__)
    texts: dict[str, Any] = {"channel": channel, "to": to}
    texts |= {name: given.get(name) for name in NoticeContent.__annotations__ if name != "data"}
    for name, value in texts.items():
        if value is not None or name == "channel":
            require_kind(name, value, str, "text")
    form = NotifyBody(data=data_of(given.get("data")), **texts)
    rest: Any = {name: given.get(name) for name in CallOptions.__annotations__}
    return Call(notify_target(form), options(**rest))


def data_of(data: Mapping[str, object] | None) -> msgspec.Raw:
    try:
        return msgspec.Raw(msgspec.json.encode(dict(data or {})))
    except (TypeError, ValueError) as error:
        raise Invalid(f"data cannot be stored as JSON: {error}", field="data") from error
