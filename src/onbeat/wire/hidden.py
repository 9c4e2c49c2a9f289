"""Hides the payload of sensitive jobs and schedules in answers."""

from collections.abc import Iterator
from typing import Annotated, Final, cast

import msgspec
from msgspec import UNSET, Meta, UnsetType
from msgspec.structs import replace

from onbeat.model.credentials import NOT_SHOWN, masked
from onbeat.model.errors import Invalid
from onbeat.model.target import (
    NO_DATA,
    CommandTarget,
    HandlerTarget,
    HttpTarget,
    MessageTarget,
    NotifyTarget,
    Target,
)
from onbeat.wire.targets import HttpAnswer, MessageAnswer, NotifyAnswer, TargetAnswer

NOT_SHOWN_JSON: Final = msgspec.Raw(msgspec.json.encode(NOT_SHOWN))
NOT_SHOWN_ARGS: Final = msgspec.Raw(msgspec.json.encode([NOT_SHOWN]))
NO_KWARGS_JSON: Final = msgspec.Raw(b"{}")

SensitiveForm = Annotated[
    bool | UnsetType | None,
    Meta(description="Whether the payload is never shown again; then `…` stands for it"),
]


def hidden_answer(target: TargetAnswer) -> TargetAnswer:
    """The target without arguments, bodies and the values of headers."""
    if target.task is not UNSET:
        return replace(target, args_json=NOT_SHOWN_ARGS, kwargs_json=NO_KWARGS_JSON)
    if target.http is not UNSET:
        return replace(target, http=hidden_http(target.http))
    if target.message is not UNSET:
        return replace(target, message=hidden_message(target.message))
    if target.notify is not UNSET:
        return replace(target, notify=hidden_notice(target.notify))
    if target.command is not UNSET:
        return hidden_command(target, target.command)
    return target


def hidden_http(http: HttpAnswer) -> HttpAnswer:
    return replace(
        http,
        url=hidden_query(http.url),
        headers=dict.fromkeys(http.headers, NOT_SHOWN),
        body=None if http.body is None else NOT_SHOWN,
    )


def hidden_message(message: MessageAnswer) -> MessageAnswer:
    headers = dict.fromkeys(message.headers, NOT_SHOWN)
    return replace(message, body_json=NOT_SHOWN_JSON, headers=headers)


def hidden_notice(notice: NotifyAnswer) -> NotifyAnswer:
    """Without its texts; for whom it is stays."""
    return replace(
        notice,
        title=None if notice.title is None else NOT_SHOWN,
        text=None if notice.text is None else NOT_SHOWN,
        html=None if notice.html is None else NOT_SHOWN,
        data_json=UNSET,
    )


def hidden_command(target: TargetAnswer, argv: tuple[str, ...]) -> TargetAnswer:
    """Without arguments, input, and the values of variables."""
    return replace(
        target,
        command=hidden_argv(argv),
        env=dict.fromkeys(target.env, NOT_SHOWN) if target.env else UNSET,
        stdin=UNSET if target.stdin is UNSET else NOT_SHOWN,
    )


def hidden_argv(argv: tuple[str, ...]) -> tuple[str, ...]:
    return (argv[0], NOT_SHOWN) if len(argv) > 1 else argv


def hidden_target(target: Target) -> Target:
    """The same for a record."""
    match target:
        case HandlerTarget():
            return replace(target, args=NOT_SHOWN_ARGS, kwargs=NO_KWARGS_JSON)
        case HttpTarget():
            return replace(
                target,
                url=hidden_query(target.url),
                headers=dict.fromkeys(target.headers, NOT_SHOWN),
                body=None if target.body is None else NOT_SHOWN,
            )
        case MessageTarget():
            headers = dict.fromkeys(target.headers, NOT_SHOWN)
            return replace(target, body=NOT_SHOWN_JSON, headers=headers)
        case NotifyTarget():
            return replace(
                target,
                title=None if target.title is None else NOT_SHOWN,
                text=None if target.text is None else NOT_SHOWN,
                html=None if target.html is None else NOT_SHOWN,
                data=NO_DATA,
            )
        case CommandTarget():
            return replace(
                target,
                argv=hidden_argv(target.argv),
                env=dict.fromkeys(target.env, NOT_SHOWN),
                stdin=None if target.stdin is None else NOT_SHOWN,
            )


def shown_form(target: Target) -> Target:
    """The target of a sensitive schedule as answers have it."""
    return masked(hidden_target(target))


def refuse_hidden(target: Target, field: str) -> None:
    """Raises `Invalid` for a `…`, which would be stored in place of the payload."""
    plain = msgspec.json.decode(msgspec.json.encode(target))
    query = target.url.partition("?")[2] if isinstance(target, HttpTarget) else ""
    if NOT_SHOWN in {query, *texts_in(plain)}:
        raise Invalid(
            f"{field}: {NOT_SHOWN} stands for what a sensitive schedule does not show; give its"
            " whole payload, or leave it out to keep it",
            field,
        )


def texts_in(value: object) -> Iterator[str]:
    """The texts of a value of JSON."""
    match value:
        case str():
            yield value
        case dict():
            for one in cast("dict[str, object]", value).values():
                yield from texts_in(one)
        case list():
            for one in cast("list[object]", value):
                yield from texts_in(one)
        case _:
            return


def hidden_query(url: str) -> str:
    path, mark, _ = url.partition("?")
    return path + mark + (NOT_SHOWN if mark else "")
