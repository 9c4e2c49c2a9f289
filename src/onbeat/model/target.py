"""Targets: where a job's work is done."""

from datetime import timedelta
from typing import Final

import msgspec

NO_ARGS = msgspec.Raw(b"[]")
NO_KWARGS = msgspec.Raw(b"{}")
NO_BODY = msgspec.Raw(b"null")
NO_DATA = msgspec.Raw(b"{}")
ANY_STATUS: Final = "any"
"""In `success`: every answer counts as success."""


class HandlerTarget(
    msgspec.Struct, frozen=True, omit_defaults=True, tag_field="kind", tag="task", gc=False
):
    """A Python function registered under the name `task`; arguments are kept as JSON text.

    `encrypted` arguments are encrypted before they are stored (see `onbeat.rules.encryption`).
    """

    task: str
    args: msgspec.Raw = NO_ARGS
    kwargs: msgspec.Raw = NO_KWARGS
    encrypted: bool = False


class HttpTarget(
    msgspec.Struct, frozen=True, omit_defaults=True, tag_field="kind", tag="http", gc=False
):
    """An HTTP request. `body` is sent unchanged; `secret` signs it (Standard Webhooks).

    With several secrets each adds a signature, so that receivers can rotate theirs. `success` has
    the statuses that count as success, as `200`, `2xx` or `any`; without one, `2xx`. At most
    `redirects` are followed. `connect_timeout` limits each connection, beside the job's timeout.
    """

    url: str
    method: str = "GET"
    headers: dict[str, str] = {}
    body: str | None = None
    secret: str | tuple[str, ...] | None = None
    success: tuple[str, ...] = ()
    redirects: int = 0
    connect_timeout: timedelta | None = None


class MessageTarget(
    msgspec.Struct, frozen=True, omit_defaults=True, tag_field="kind", tag="message", gc=False
):
    """A message for a queue or topic of a broker; `to` names a connection of the configuration.

    `body` is JSON text; a JSON string is sent as plain text.
    """

    to: str
    queue: str
    body: msgspec.Raw = NO_BODY
    headers: dict[str, str] = {}


class NotifyTarget(
    msgspec.Struct, frozen=True, omit_defaults=True, tag_field="kind", tag="notify", gc=False
):
    """A notice for one recipient over a channel, which the configuration names.

    `to`, `title`, `text` and `html` may be templates; `template` names one of the configuration
    instead of `text` and `html`. `data` is a JSON object that templates read.
    """

    channel: str
    to: str | None = None
    title: str | None = None
    text: str | None = None
    html: str | None = None
    template: str | None = None
    data: msgspec.Raw = NO_DATA


class CommandTarget(
    msgspec.Struct, frozen=True, omit_defaults=True, tag_field="kind", tag="command", gc=False
):
    """A program on the worker's machine: `argv` has its absolute path and its arguments.

    `env` adds to the few variables that it has, `stdin` is sent as UTF-8.
    """

    argv: tuple[str, ...]
    env: dict[str, str] = {}
    cwd: str | None = None
    stdin: str | None = None

    @property
    def program(self) -> str:
        return self.argv[0]


Target = HandlerTarget | HttpTarget | MessageTarget | NotifyTarget | CommandTarget


def lane_of(target: Target) -> str:
    """The lane: the task's name, or `@` and the kind of target."""
    match target:
        case HandlerTarget():
            return target.task
        case HttpTarget():
            return "@http"
        case MessageTarget(to=to):
            return message_lane(to)
        case NotifyTarget(channel=channel):
            return notify_lane(channel)
        case CommandTarget(argv=argv):
            return command_lane(argv[0])


def message_lane(connection: str) -> str:
    """The lane of messages sent over the connection of this name."""
    return f"@message:{connection}"


def notify_lane(channel: str) -> str:
    """The lane of notices over the channel of this name."""
    return f"@notify:{channel}"


def command_lane(program: str) -> str:
    """The lane of commands that run the program at this path."""
    return f"@command:{program}"
