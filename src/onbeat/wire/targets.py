"""Targets and retry policies, as they are sent and as they are shown."""

from typing import Annotated

import msgspec
from msgspec import UNSET, Meta, UnsetType

from onbeat.model.errors import Invalid, Malformed, TooLarge
from onbeat.model.limits import ATTEMPTS_MAX, PAYLOAD_BYTES_MAX
from onbeat.model.retry import Backoff, RetryPolicy
from onbeat.model.target import NO_ARGS, NO_KWARGS, HandlerTarget, HttpTarget, Target
from onbeat.wire.values import ReadOnly, SpanForm, read_name, read_span, span_text

ArgsForm = Annotated[
    msgspec.Raw | UnsetType,
    Meta(description="Positional arguments", extra_json_schema={"type": "array"}),
]
KwargsForm = Annotated[
    msgspec.Raw | UnsetType,
    Meta(description="Named arguments", extra_json_schema={"type": "object"}),
]
JsonForm = Annotated[msgspec.Raw | UnsetType, Meta(description="Any JSON; sent as the body")]


class HttpBody(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """An HTTP request: `body` as text, or `json`. `secret` signs it and is never shown again."""

    url: str
    method: str | UnsetType | None = UNSET
    headers: dict[str, str] | UnsetType | None = UNSET
    body: str | UnsetType | None = UNSET
    json: JsonForm = UNSET
    secret: str | UnsetType | None = UNSET
    secret_set: ReadOnly = UNSET


class TargetBody(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One kind of target: a `task` with its arguments, or an `http` request."""

    task: str | UnsetType = UNSET
    args: ArgsForm = UNSET
    kwargs: KwargsForm = UNSET
    http: HttpBody | UnsetType = UNSET


class RetryBody(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How often and how far apart a job is tried; what is left out is the service's default."""

    attempts_max: Annotated[int, Meta(ge=1, le=ATTEMPTS_MAX)] | UnsetType = UNSET
    backoff: Backoff | UnsetType = UNSET
    delay: SpanForm | UnsetType = UNSET
    delay_max: SpanForm | UnsetType = UNSET
    jitter: bool | UnsetType = UNSET


class HttpAnswer(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    url: str
    method: str
    headers: dict[str, str] = {}
    body: str | None = None
    secret_set: bool = False


class TargetAnswer(msgspec.Struct, frozen=True, kw_only=True):
    task: str | UnsetType = UNSET
    args: ArgsForm = UNSET
    kwargs: KwargsForm = UNSET
    http: HttpAnswer | UnsetType = UNSET


class RetryAnswer(msgspec.Struct, frozen=True, kw_only=True):
    attempts_max: int
    backoff: Backoff
    delay: str
    delay_max: str
    jitter: bool


def read_target(body: TargetBody, field: str, before: Target | None = None) -> Target:
    """The target that `body` describes.

    `before` is the target that it replaces: a signing secret is never shown, so one that is not
    sent again stays.
    """
    if body.http is UNSET:
        if body.task is UNSET:
            raise Invalid(f"{field} needs a kind: task or http", field)
        return handler_target(body.task, body.args, body.kwargs, field)
    if not body.task is body.args is body.kwargs is UNSET:
        raise Invalid(f"{field} must be of one kind: task or http, not both", field)
    return http_target(body.http, f"{field}.http", before)


def handler_target(
    task: str, args: msgspec.Raw | UnsetType, kwargs: msgspec.Raw | UnsetType, field: str
) -> HandlerTarget:
    prefix = f"{field}." if field else ""
    read_name(task, f"{prefix}task")
    kept_args = compact(args, NO_ARGS, b"[", f"{prefix}args")
    kept_kwargs = compact(kwargs, NO_KWARGS, b"{", f"{prefix}kwargs")
    check_payload(len(bytes(kept_args)) + len(bytes(kept_kwargs)), f"{prefix}args")
    return HandlerTarget(task=task, args=kept_args, kwargs=kept_kwargs)


def compact(
    given: msgspec.Raw | UnsetType, default: msgspec.Raw, opening: bytes, field: str
) -> msgspec.Raw:
    """JSON text without its spaces, so that equal arguments are equal bytes."""
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
    secret = body.secret or None
    if body.secret is UNSET and isinstance(before, HttpTarget):
        secret = before.secret
    return checked_http(
        HttpTarget(
            url=body.url, method=body.method or "GET", headers=headers, body=text, secret=secret
        ),
        f"{field}.",
    )


def checked_http(target: HttpTarget, prefix: str = "") -> HttpTarget:
    """The target, if its body is not too large; what its other parts say is judged later."""
    check_payload(len((target.body or "").encode()), f"{prefix}body")
    return target


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
    )


def target_answer(target: Target) -> TargetAnswer:
    match target:
        case HandlerTarget(task=task, args=args, kwargs=kwargs):
            return TargetAnswer(task=task, args=args, kwargs=kwargs)
        case HttpTarget():
            return TargetAnswer(
                http=HttpAnswer(
                    url=target.url,
                    method=target.method,
                    headers=target.headers,
                    body=target.body,
                    secret_set=target.secret is not None,
                )
            )


def retry_answer(policy: RetryPolicy) -> RetryAnswer:
    return RetryAnswer(
        attempts_max=policy.attempts_max,
        backoff=policy.backoff,
        delay=span_text(policy.delay),
        delay_max=span_text(policy.delay_max),
        jitter=policy.jitter,
    )
