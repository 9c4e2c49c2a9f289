"""Targets: where a job's work is done."""

import msgspec

NO_ARGS = msgspec.Raw(b"[]")
NO_KWARGS = msgspec.Raw(b"{}")
NO_BODY = msgspec.Raw(b"null")


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

    With several secrets each adds a signature, so that receivers can rotate theirs.
    """

    url: str
    method: str = "GET"
    headers: dict[str, str] = {}
    body: str | None = None
    secret: str | tuple[str, ...] | None = None


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


Target = HandlerTarget | HttpTarget | MessageTarget


def lane_of(target: Target) -> str:
    """The lane: the task's name, or `@` and the kind of target."""
    match target:
        case HandlerTarget(task=task):
            return task
        case HttpTarget():
            return "@http"
        case MessageTarget(to=to):
            return message_lane(to)


def message_lane(connection: str) -> str:
    """The lane of messages sent over the connection of this name."""
    return f"@message:{connection}"
