"""Where a job's work ends up."""

import msgspec

NO_ARGS = msgspec.Raw(b"[]")
NO_KWARGS = msgspec.Raw(b"{}")


class HandlerTarget(
    msgspec.Struct, frozen=True, omit_defaults=True, tag_field="kind", tag="task", gc=False
):
    """A Python function registered under the name `task`; arguments are kept as JSON text."""

    task: str
    args: msgspec.Raw = NO_ARGS
    kwargs: msgspec.Raw = NO_KWARGS


class HttpTarget(
    msgspec.Struct, frozen=True, omit_defaults=True, tag_field="kind", tag="http", gc=False
):
    """An HTTP request. `body` is sent as it stands; `secret` signs it (Standard Webhooks)."""

    url: str
    method: str = "GET"
    headers: dict[str, str] = {}
    body: str | None = None
    secret: str | None = None


Target = HandlerTarget | HttpTarget


def lane_of(target: Target) -> str:
    """What a worker must know to run it: the task's name, or the kind of target after an `@`."""
    match target:
        case HandlerTarget(task=task):
            return task
        case HttpTarget():
            return "@http"
