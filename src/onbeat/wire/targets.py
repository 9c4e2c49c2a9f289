"""Wire records of targets and retry policies."""

from datetime import timedelta
from typing import Annotated, Any, Final

import msgspec
from msgspec import UNSET, Meta, UnsetType

from onbeat.model.credentials import HIDDEN, masked
from onbeat.model.encrypted import check_in_clear
from onbeat.model.errors import Invalid, Malformed, TooLarge
from onbeat.model.limits import (
    ATTEMPTS_MAX,
    CONNECT_TIMEOUT_MAX,
    CONNECT_TIMEOUT_MIN,
    HEADER_BYTES_MAX,
    HEADERS_MAX,
    LOST_MAX_LARGEST,
    PAYLOAD_BYTES_MAX,
    RECIPIENT_CHARS_MAX,
    REDIRECTS_MAX,
    SECRETS_MAX,
    STATUSES_MAX,
    TITLE_CHARS_MAX,
)
from onbeat.model.retry import Backoff, RetryPolicy
from onbeat.model.target import (
    ANY_STATUS,
    NO_ARGS,
    NO_DATA,
    NO_KWARGS,
    CommandTarget,
    HandlerTarget,
    HttpTarget,
    MessageTarget,
    NotifyTarget,
    Target,
)
from onbeat.wire.answer import AnswerRecord, plain_value
from onbeat.wire.commands import (
    ArgvForm,
    CwdForm,
    EnvForm,
    StdinForm,
    command_target,
)
from onbeat.wire.values import (
    ANY_ARRAY,
    ANY_OBJECT,
    SpanForm,
    read_name,
    read_span,
    read_task,
    span_text,
)

ArgsForm = Annotated[
    msgspec.Raw | UnsetType,
    Meta(description="Positional arguments", extra_json_schema=ANY_ARRAY),
]
KwargsForm = Annotated[
    msgspec.Raw | UnsetType,
    Meta(description="Named arguments", extra_json_schema=ANY_OBJECT),
]
EncryptedForm = Annotated[
    bool | UnsetType,
    Meta(description="Whether the arguments are encrypted at rest; then shown as `***`"),
]
OWN_HEADERS: Final = "onbeat-"
KINDS: Final = "task, http, message, notify or command"

DataForm = Annotated[
    msgspec.Raw | UnsetType,
    Meta(description="What the templates read as `data`", extra_json_schema=ANY_OBJECT),
]
JsonForm = Annotated[msgspec.Raw | UnsetType, Meta(description="Any JSON; sent as the body")]


SecretForm = Annotated[
    str | tuple[str, ...],
    Meta(description=f"whsec_ and a key in base64, or a list of up to {SECRETS_MAX} of them"),
]

SecretSetForm = Annotated[
    msgspec.Raw | UnsetType,
    Meta(
        description="As an answer has it; true without a secret stands for the one that is stored",
        extra_json_schema={"readOnly": True},
    ),
]


SuccessForm = Annotated[
    str | Annotated[tuple[int | str, ...], Meta(min_length=1, max_length=STATUSES_MAX)],
    Meta(
        description="Statuses that count as success, such as 200 and `2xx`; or `any`",
        examples=[[200, "3xx"], "any"],
    ),
]
RedirectsForm = Annotated[
    int,
    Meta(ge=0, le=REDIRECTS_MAX, description="How many redirects are followed"),
]


class HttpBody(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """An HTTP request: `body` as text, or `json`. `secret` signs it and is never shown again.

    A list of secrets signs with each. In an edit, `***` stands for the stored credential.
    `connect_timeout` limits each connection, beside the timeout of the job.
    """

    url: str
    method: str | UnsetType | None = UNSET
    headers: dict[str, str] | UnsetType | None = UNSET
    body: str | UnsetType | None = UNSET
    json: JsonForm = UNSET
    secret: SecretForm | UnsetType | None = UNSET
    secret_set: SecretSetForm = UNSET
    success: SuccessForm | UnsetType | None = UNSET
    redirects: RedirectsForm | UnsetType | None = UNSET
    connect_timeout: SpanForm | UnsetType | None = UNSET


class MessageBody(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A message: `to` names a connection of the service's configuration, `queue` a queue or topic
    there. A `body` that is a JSON string is sent as plain text.
    """

    to: str
    queue: str
    body: JsonForm = UNSET
    headers: dict[str, str] | UnsetType | None = UNSET


class NoticeBody(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What people are told: `text` or `html`, or a `template` of the configuration instead.

    They and the `title` may be Liquid, which reads `data`, `to`, `now`, `job`, `occurrence`,
    `event` and `events`.
    """

    channel: str
    title: str | UnsetType | None = UNSET
    text: str | UnsetType | None = UNSET
    html: str | UnsetType | None = UNSET
    template: str | UnsetType | None = UNSET
    data: DataForm = UNSET


class NotifyBody(NoticeBody, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A notice for one recipient over a `channel` of the configuration."""

    to: str | UnsetType | None = UNSET


class TargetBody(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One kind of target: a `task` with its arguments, an `http` request, a `message`, a notice, or
    a `command` with its environment and input.
    """

    task: str | UnsetType = UNSET
    args: ArgsForm = UNSET
    kwargs: KwargsForm = UNSET
    encrypted: EncryptedForm = UNSET
    http: HttpBody | UnsetType = UNSET
    message: MessageBody | UnsetType = UNSET
    notify: NotifyBody | UnsetType = UNSET
    command: ArgvForm = UNSET
    env: EnvForm = UNSET
    cwd: CwdForm = UNSET
    stdin: StdinForm = UNSET


class RetryBody(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How often and at what intervals a job is tried; missing fields are the service's defaults."""

    attempts_max: Annotated[int, Meta(ge=1, le=ATTEMPTS_MAX)] | UnsetType = UNSET
    backoff: Backoff | UnsetType = UNSET
    delay: SpanForm | UnsetType = UNSET
    delay_max: SpanForm | UnsetType = UNSET
    jitter: bool | UnsetType = UNSET
    lost_max: Annotated[int, Meta(ge=1, le=LOST_MAX_LARGEST)] | UnsetType = UNSET


class HttpAnswer(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    url: str
    method: str
    headers: dict[str, str] = {}
    body: str | None = None
    secret_set: bool = False
    success: SuccessForm | UnsetType = UNSET
    redirects: int = 0
    connect_timeout: str | None = None


class MessageAnswer(AnswerRecord, frozen=True, kw_only=True, omit_defaults=True):
    to: str
    queue: str
    body_json: JsonForm = msgspec.field(name="body", default=UNSET)
    headers: dict[str, str] = {}

    @property
    def body(self) -> Any:
        """In plain JSON values."""
        return plain_value(self.body_json)


class NotifyAnswer(AnswerRecord, frozen=True, kw_only=True, omit_defaults=True):
    channel: str
    to: str | None = None
    title: str | None = None
    text: str | None = None
    html: str | None = None
    template: str | None = None
    data_json: DataForm = msgspec.field(name="data", default=UNSET)

    @property
    def data(self) -> Any:
        """In plain JSON values; UNSET without data."""
        return plain_value(self.data_json)


class TargetAnswer(AnswerRecord, frozen=True, kw_only=True):
    task: str | UnsetType = UNSET
    args_json: ArgsForm = msgspec.field(name="args", default=UNSET)
    kwargs_json: KwargsForm = msgspec.field(name="kwargs", default=UNSET)
    encrypted: EncryptedForm = UNSET
    http: HttpAnswer | UnsetType = UNSET
    message: MessageAnswer | UnsetType = UNSET
    notify: NotifyAnswer | UnsetType = UNSET
    command: ArgvForm = UNSET
    env: EnvForm = UNSET
    cwd: CwdForm = UNSET
    stdin: StdinForm = UNSET

    @property
    def args(self) -> Any:
        """The list of them in plain JSON values; UNSET without a task."""
        return plain_value(self.args_json)

    @property
    def kwargs(self) -> Any:
        """By name, in plain JSON values; UNSET without a task."""
        return plain_value(self.kwargs_json)


class RetryAnswer(msgspec.Struct, frozen=True, kw_only=True):
    attempts_max: int
    backoff: Backoff
    delay: str
    delay_max: str
    jitter: bool
    lost_max: int


def read_target(body: TargetBody, field: str, before: Target | None = None) -> Target:
    """The target of `body`.

    `before` is the target that it replaces, as shown in answers: a missing signing secret becomes
    `***`, which stands for the stored one.
    """
    is_task = not body.task is body.args is body.kwargs is body.encrypted is UNSET
    is_command = not body.command is body.env is body.cwd is body.stdin is UNSET
    others = (body.http, body.message, body.notify)
    if is_task + is_command + sum(other is not UNSET for other in others) > 1:
        raise Invalid(f"{field} must be of one kind: {KINDS}", field)
    if body.http is not UNSET:
        return http_target(body.http, f"{field}.http", before)
    if body.message is not UNSET:
        return message_target(body.message, f"{field}.message")
    if body.notify is not UNSET:
        return notify_target(body.notify, f"{field}.notify")
    if is_command:
        return command_target(
            body.command or (), body.env or {}, body.cwd or None, body.stdin or None, field
        )
    if body.task is UNSET:
        raise Invalid(f"{field} needs a kind: {KINDS}", field)
    target = handler_target(body.task, body.args, body.kwargs, field)
    return msgspec.structs.replace(target, encrypted=body.encrypted is True)


def handler_target(
    task: str, args: msgspec.Raw | UnsetType, kwargs: msgspec.Raw | UnsetType, field: str
) -> HandlerTarget:
    prefix = f"{field}." if field else ""
    read_task(task, f"{prefix}task")
    kept_args = compact(args, NO_ARGS, b"[", f"{prefix}args")
    kept_kwargs = compact(kwargs, NO_KWARGS, b"{", f"{prefix}kwargs")
    check_payload(len(bytes(kept_args)) + len(bytes(kept_kwargs)), f"{prefix}args")
    return HandlerTarget(task=task, args=kept_args, kwargs=kept_kwargs)


def compact(
    given: msgspec.Raw | UnsetType, default: msgspec.Raw, opening: bytes, field: str
) -> msgspec.Raw:
    """JSON text without spaces, so that equal arguments have equal bytes."""
    if given is UNSET or bytes(given).strip() == b"null":
        return default
    text = msgspec.json.format(bytes(given), indent=-1)
    if not text.startswith(opening):
        kind = "an array" if opening == b"[" else "an object"
        raise Malformed(f"{field} must be {kind}", field)
    return msgspec.Raw(text)


def http_target(body: HttpBody, field: str, before: Target | None) -> HttpTarget:
    headers = body.headers or {}
    text = body.body or None
    if body.json is not UNSET:
        if text is not None:
            raise Invalid(f"{field} takes body or json, not both", f"{field}.json")
        text = msgspec.json.format(bytes(body.json), indent=-1).decode()
        if not any(name.lower() == "content-type" for name in headers):
            headers = {**headers, "Content-Type": "application/json"}
    return checked_http(
        HttpTarget(
            url=body.url,
            method=body.method or "GET",
            headers=headers,
            body=text,
            secret=read_secret(body, before),
            success=read_success(body),
            redirects=body.redirects or 0,
            connect_timeout=read_connect_timeout(body, f"{field}.connect_timeout"),
        ),
        f"{field}.",
    )


def read_success(body: HttpBody) -> tuple[str, ...]:
    given = body.success
    if given is None or given is UNSET:
        return ()
    return (given,) if isinstance(given, str) else tuple(map(str, given))


def shown_success(statuses: tuple[str, ...]) -> str | tuple[int | str, ...]:
    """The statuses of a target as a request has them."""
    if statuses == (ANY_STATUS,):
        return ANY_STATUS
    return tuple(int(one) if one.isdigit() else one for one in statuses)


def read_connect_timeout(body: HttpBody, field: str) -> timedelta | None:
    given = body.connect_timeout
    if given is None or given is UNSET:
        return None
    return read_span(given, field, least=CONNECT_TIMEOUT_MIN, most=CONNECT_TIMEOUT_MAX)


def read_secret(body: HttpBody, before: Target | None) -> str | tuple[str, ...] | None:
    if body.secret is not UNSET:
        return None if body.secret == "" else body.secret
    if isinstance(before, HttpTarget):
        return before.secret
    # A client may send back an answer; without this its callback would lose the signature.
    is_set = body.secret_set is not UNSET and bytes(body.secret_set) == b"true"
    return HIDDEN if is_set else None


def checked_http(target: HttpTarget, prefix: str = "") -> HttpTarget:
    """The target, if its body is not too large; other parts are validated later."""
    check_payload(len((target.body or "").encode()), f"{prefix}body")
    return target


def message_target(body: MessageBody, field: str = "") -> MessageTarget:
    prefix = f"{field}." if field else ""
    read_name(body.to, f"{prefix}to")
    read_name(body.queue, f"{prefix}queue")
    text = b"null" if body.body is UNSET else msgspec.json.format(bytes(body.body), indent=-1)
    check_payload(len(text), f"{prefix}body")
    return MessageTarget(
        to=body.to,
        queue=body.queue,
        body=msgspec.Raw(text),
        headers=message_headers(body.headers or {}, f"{prefix}headers"),
    )


def notify_target(body: NotifyBody, field: str = "") -> NotifyTarget:
    """Raises `Invalid` for a notice without content, or over its bounds."""
    prefix = f"{field}." if field else ""
    to = body.to or None
    if to is not None and len(to) > RECIPIENT_CHARS_MAX:
        raise TooLarge(
            f"{prefix}to may have at most {RECIPIENT_CHARS_MAX} characters", f"{prefix}to"
        )
    return msgspec.structs.replace(notice_target(body, field), to=to)


def notice_target(body: NoticeBody, field: str = "") -> NotifyTarget:
    """The same, without its recipient."""
    prefix = f"{field}." if field else ""
    read_name(body.channel, f"{prefix}channel")
    target = NotifyTarget(
        channel=body.channel,
        title=body.title or None,
        text=body.text or None,
        html=body.html or None,
        template=body.template or None,
        data=compact(body.data, NO_DATA, b"{", f"{prefix}data"),
    )
    check_content(target, prefix)
    return target


def check_content(target: NotifyTarget, prefix: str) -> None:
    title, text, html = target.title or "", target.text or "", target.html or ""
    if target.template is not None and (text or html):
        name = "text" if text else "html"
        raise Invalid(f"{prefix}template is in the place of {name}; give one", f"{prefix}{name}")
    if target.template is None and not (title or text or html):
        raise Invalid(f"{prefix}text or {prefix}template is needed", f"{prefix}text")
    if len(title) > TITLE_CHARS_MAX:
        raise TooLarge(
            f"{prefix}title may have at most {TITLE_CHARS_MAX} characters", f"{prefix}title"
        )
    check_payload(
        len(f"{title}{text}{html}".encode(errors="replace")) + len(bytes(target.data)),
        f"{prefix}text",
    )


def message_headers(headers: dict[str, str], field: str) -> dict[str, str]:
    """The headers, if brokers accept them and none is reserved for Onbeat."""
    if len(headers) > HEADERS_MAX:
        raise Invalid(f"{field} may have at most {HEADERS_MAX} entries", field)
    for name, value in headers.items():
        read_name(name, field)
        if name.lower().startswith(OWN_HEADERS):
            raise Invalid(f"{field}: names that begin with {OWN_HEADERS} are Onbeat's own", field)
        check_in_clear(value, f"{field}.{name}")
        if len(value.encode("utf-8", "replace")) > HEADER_BYTES_MAX:
            raise TooLarge(f"{field}.{name} may have at most {HEADER_BYTES_MAX} bytes", field)
    return headers


def check_payload(size: int, field: str) -> None:
    if size > PAYLOAD_BYTES_MAX:
        raise TooLarge(f"{field} may have at most {PAYLOAD_BYTES_MAX} bytes; it has {size}", field)


def read_retry(body: RetryBody, defaults: RetryPolicy, field: str = "retry") -> RetryPolicy:
    delay = defaults.delay if body.delay is UNSET else read_span(body.delay, f"{field}.delay")
    delay_max = (
        defaults.delay_max
        if body.delay_max is UNSET
        else read_span(body.delay_max, f"{field}.delay_max")
    )
    if body.delay_max is not UNSET and delay_max < delay:
        raise Invalid(f"{field}.delay_max must not be below the delay", f"{field}.delay_max")
    return RetryPolicy(
        attempts_max=defaults.attempts_max if body.attempts_max is UNSET else body.attempts_max,
        backoff=defaults.backoff if body.backoff is UNSET else body.backoff,
        delay=delay,
        delay_max=max(delay, delay_max),
        jitter=defaults.jitter if body.jitter is UNSET else body.jitter,
        lost_max=defaults.lost_max if body.lost_max is UNSET else body.lost_max,
    )


def target_answer(target: Target) -> TargetAnswer:
    match masked(target):
        case HandlerTarget(task=task, args=args, kwargs=kwargs, encrypted=encrypted):
            return TargetAnswer(
                task=task,
                args_json=args,
                kwargs_json=kwargs,
                encrypted=True if encrypted else UNSET,
            )
        case HttpTarget(connect_timeout=span) as target:
            return TargetAnswer(
                http=HttpAnswer(
                    url=target.url,
                    method=target.method,
                    headers=target.headers,
                    body=target.body,
                    secret_set=target.secret is not None,
                    success=shown_success(target.success) or UNSET,
                    redirects=target.redirects,
                    connect_timeout=None if span is None else span_text(span),
                )
            )
        case MessageTarget(to=to, queue=queue, body=body, headers=headers):
            return TargetAnswer(
                message=MessageAnswer(to=to, queue=queue, body_json=body, headers=headers)
            )
        case NotifyTarget() as target:
            return TargetAnswer(notify=notify_answer(target))
        case CommandTarget() as target:
            return command_answer(target)


def command_answer(target: CommandTarget) -> TargetAnswer:
    return TargetAnswer(
        command=target.argv,
        env=target.env or UNSET,
        cwd=target.cwd or UNSET,
        stdin=target.stdin or UNSET,
    )


def notify_answer(target: NotifyTarget) -> NotifyAnswer:
    return NotifyAnswer(
        channel=target.channel,
        to=target.to,
        title=target.title,
        text=target.text,
        html=target.html,
        template=target.template,
        data_json=UNSET if target.data == NO_DATA else target.data,
    )


def retry_answer(policy: RetryPolicy) -> RetryAnswer:
    return RetryAnswer(
        attempts_max=policy.attempts_max,
        backoff=policy.backoff,
        delay=span_text(policy.delay),
        delay_max=span_text(policy.delay_max),
        jitter=policy.jitter,
        lost_max=policy.lost_max,
    )
