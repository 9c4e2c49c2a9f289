"""The messages of the wire protocol between dispatchers and workers (JSON-RPC 2.0).

A remote worker gets everything in the message: the method is the task, the params are the arguments
with the number of the attempt, the id is the job's. A worker with store access needs only ids and
tokens; many of those share one message.
"""

from collections.abc import Sequence
from datetime import datetime
from typing import Annotated, Any, Final

import msgspec
from msgspec import Meta

from onbeat.model.errors import Malformed
from onbeat.model.event import Event
from onbeat.model.ids import JobId, Token
from onbeat.model.job import Job
from onbeat.model.limits import INTEGER_MAX
from onbeat.model.target import NO_ARGS, NO_KWARGS, HandlerTarget, lane_of
from onbeat.model.trace_context import trace_context
from onbeat.wire.cloud_events import cloud_event
from onbeat.wire.values import UUID

SUBMIT: Final = "onbeat.submit"
EVENTS: Final = "onbeat.events"
RESULTS: Final = "onbeat.results"
DEAD: Final = "onbeat.dead"
REPLIES: Final = "onbeat.replies"

TOKEN_HEADER: Final = "onbeat-token"  # noqa: S105  the name of a header
SENSITIVE_MARK: Final = {"onbeat-sensitive": "true"}
"""Stored with a dead letter of a sensitive job, whose body is then never shown."""
DEADLINE_HEADER: Final = "onbeat-deadline"
ATTEMPT_HEADER: Final = "onbeat-attempt"
HOPS_HEADER: Final = "onbeat-hops"
FETCH_HEADER: Final = "onbeat-fetch"
REASON_HEADER: Final = "onbeat-reason"
SOURCE_HEADER: Final = "onbeat-source"
CUT_HEADER: Final = "onbeat-cut"

VERSION: Final = "2.0"

# Announcements have at most 50 jobs; a much larger message is foreign and wastes memory.
ANNOUNCEMENT_BYTES_MAX: Final = 1 << 20
ANNOUNCED_MAX: Final = 1_000


def work_queue(queue: str) -> str:
    """The broker's queue that carries the jobs of this queue to remote workers."""
    return f"onbeat.work.{queue}"


def run_queue(queue: str) -> str:
    """The broker's queue that announces jobs of this queue to workers with store access."""
    return f"onbeat.run.{queue}"


class Announced(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A claimed job as announced to a worker with store access.

    The part of a call that such a worker reads; it loads the rest from the store.
    """

    jsonrpc: str
    task: str = msgspec.field(name="method")
    id: JobId
    token: Annotated[Token, Meta(ge=0, le=INTEGER_MAX)]


Announcement = Announced | Annotated[list[Announced], Meta(max_length=ANNOUNCED_MAX)]
ANNOUNCEMENT: Final[msgspec.json.Decoder[Announced | list[Announced]]] = msgspec.json.Decoder(
    Announcement
)


NO_JOBS: Final = b"[]"
"""An announcement without jobs: it tests whether the queue accepts messages."""


def announcement(jobs: Sequence[Job]) -> bytes:
    """One message that announces these jobs, for workers with store access."""
    return announcement_of(
        [
            Announced(jsonrpc=VERSION, task=lane_of(job.target), id=job.id, token=job.token)
            for job in jobs
        ]
    )


def announcement_of(announced: Sequence[Announced]) -> bytes:
    return msgspec.json.encode(announced if len(announced) > 1 else announced[0])


def read_announcement(body: bytes) -> Sequence[Announced]:
    """The jobs of an announcement.

    Raises `Malformed` for any other message.
    """
    if len(body) > ANNOUNCEMENT_BYTES_MAX:
        raise Malformed(f"this is no announcement of a job: it has {len(body):,} bytes")
    try:
        decoded = ANNOUNCEMENT.decode(body)
    except (msgspec.MsgspecError, ValueError, RecursionError) as error:
        raise Malformed(f"this is no announcement of a job: {error}") from error
    announced = [decoded] if isinstance(decoded, Announced) else decoded
    if not all(UUID.fullmatch(one.id) for one in announced):
        raise Malformed("this is no announcement of a job: it has an id that no job can have")
    return announced


def work_call(job: Job, events: Sequence[Event] = ()) -> dict[str, Any]:
    """A claimed job, with its events, as a call for a remote worker."""
    return {
        "jsonrpc": VERSION,
        "method": lane_of(job.target),
        "params": work_params(job, events),
        "id": job.id,
    }


def work_params(job: Job, events: Sequence[Event] = ()) -> dict[str, Any]:
    """The keyword arguments, the number of the attempt, `args` for positional arguments, and
    `events` for a job that was made for some.
    """
    params: dict[str, Any] = {}
    if isinstance(job.target, HandlerTarget):
        if job.target.kwargs != NO_KWARGS:
            params.update(msgspec.json.decode(job.target.kwargs, type=dict[str, msgspec.Raw]))
        if job.target.args != NO_ARGS:
            params["args"] = job.target.args
    if events:
        params["events"] = [cloud_event(event) for event in events]
    params["attempt"] = job.attempt
    return params


def work_headers(job: Job, token: str, deadline: datetime | None) -> dict[str, str]:
    """The headers: fence of the attempt, deadline of its outcome, trace of the sender."""
    headers = {TOKEN_HEADER: token, ATTEMPT_HEADER: str(job.attempt)}
    if (sender := trace_context(job.traceparent, job.tracestate)) is not None:
        headers |= sender.headers()
    if deadline is not None:
        headers[DEADLINE_HEADER] = msgspec.to_builtins(deadline)
    return headers
