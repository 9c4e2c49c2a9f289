"""Work that is submitted as a call of `submit:<task>`: its params are the task's arguments."""

from typing import Final

import msgspec
from msgspec import UNSET

from onbeat.model.errors import Invalid
from onbeat.wire.decoding import guard_values, typed
from onbeat.wire.jobs import JobBody, JobDraft, read_draft
from onbeat.wire.jsonrpc import Call, UnknownMethod
from onbeat.wire.targets import handler_target

PREFIX: Final = "submit:"
KEY_HEADER: Final = "onbeat-key"
SENT_HEADER: Final = "onbeat-sent-at"
OPTIONS: Final = "onbeat"
NOT_OPTIONS: Final = ("task", "args", "kwargs", "target")


class Submitted(msgspec.Struct, frozen=True, kw_only=True):
    """The job, and whether it is new: it is not where a live one has the unique key."""

    id: str
    created: bool


def task_of(method: str) -> str:
    """The task that a method submits to; raises `UnknownMethod` for another method."""
    if not method.startswith(PREFIX) or method == PREFIX:
        raise UnknownMethod
    return method.removeprefix(PREFIX)


def read_submission(call: Call) -> JobDraft:
    """The job: an object of params as keyword arguments, an array as positional ones.

    When and how it runs stands beside the params in the member `onbeat`, in the words of a job's
    body in REST.
    """
    guard_values(bytes(call.text))
    params = UNSET if call.params is None else call.params
    by_place = bytes(params or b"{}").startswith(b"[")
    target = handler_target(
        task_of(call.method),
        args=params if by_place else UNSET,
        kwargs=UNSET if by_place else params,
        field="params",
    )
    return read_draft(read_options(call), target, f"{OPTIONS}.")


def read_options(call: Call) -> JobBody:
    if call.onbeat is None:
        return JobBody()
    try:
        options = typed(JobBody, bytes(call.onbeat))
    except Invalid as error:
        field = f"{OPTIONS}.{error.field}" if error.field else OPTIONS
        raise type(error)(f"{OPTIONS}: {error}", field) from None
    for name in NOT_OPTIONS:
        if getattr(options, name) is not UNSET:
            field = f"{OPTIONS}.{name}"
            raise Invalid(f"{field}: the method names the task, params are its arguments", field)
    return options
