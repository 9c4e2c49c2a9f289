"""The messages of the wire protocol between dispatchers and workers (JSON-RPC 2.0).

A worker in any language is told all that it needs: the method is the task, the params are the
arguments with the number of the attempt, the id is the job's. A worker that has the store at hand
needs only ids and tokens; many of those travel in one message.
"""

from collections.abc import Sequence
from datetime import datetime
from typing import Annotated, Any, Final

import msgspec
from msgspec import Meta

from onbeat.model.errors import Malformed
from onbeat.model.ids import JobId, Token
from onbeat.model.job import Job
from onbeat.model.limits import INTEGER_MAX
from onbeat.model.target import NO_ARGS, NO_KWARGS, HandlerTarget, lane_of
from onbeat.wire.values import UUID

SUBMIT: Final = "onbeat.submit"
RESULTS: Final = "onbeat.results"
DEAD: Final = "onbeat.dead"
REPLIES: Final = "onbeat.replies"

TOKEN_HEADER: Final = "onbeat-token"  # noqa: S105  a fence, not a secret
DEADLINE_HEADER: Final = "onbeat-deadline"
ATTEMPT_HEADER: Final = "onbeat-attempt"
HOPS_HEADER: Final = "onbeat-hops"
FETCH_HEADER: Final = "onbeat-fetch"
REASON_HEADER: Final = "onbeat-reason"
SOURCE_HEADER: Final = "onbeat-source"
CUT_HEADER: Final = "onbeat-cut"

VERSION: Final = "2.0"

# Announcements have at most 50 jobs; what is far beyond that is not ours, and not worth the memory.
ANNOUNCEMENT_BYTES_MAX: Final = 1 << 20
ANNOUNCED_MAX: Final = 1_000


def work_queue(queue: str) -> str:
    """The broker's queue that carries the jobs of this queue to workers in any language."""
    return f"onbeat.work.{queue}"


def run_queue(queue: str) -> str:
    """The broker's queue that tells workers with the store at hand of the jobs of this queue."""
    return f"onbeat.run.{queue}"


class Announced(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A claimed job as a worker with the store at hand hears of it.

    A call as far as such a worker reads it; what it needs besides is in the store.
    """

    jsonrpc: str
    task: str = msgspec.field(name="method")
    id: JobId
    token: Annotated[Token, Meta(ge=0, le=INTEGER_MAX)]


Told = Announced | Annotated[list[Announced], Meta(max_length=ANNOUNCED_MAX)]
TOLD: Final[msgspec.json.Decoder[Announced | list[Announced]]] = msgspec.json.Decoder(Told)


NO_JOBS: Final = b"[]"
"""An announcement that tells of no jobs: it shows that the queue takes messages."""


def announcement(jobs: Sequence[Job]) -> bytes:
    """One message that tells of these jobs, for workers that have the store at hand."""
    return announcement_of(
        [
            Announced(jsonrpc=VERSION, task=lane_of(job.target), id=job.id, token=job.token)
            for job in jobs
        ]
    )


def announcement_of(told: Sequence[Announced]) -> bytes:
    return msgspec.json.encode(told if len(told) > 1 else told[0])


def read_announcement(body: bytes) -> Sequence[Announced]:
    """The jobs that a message tells of.

    Raises `Malformed` for what is no such message.
    """
    if len(body) > ANNOUNCEMENT_BYTES_MAX:
        raise Malformed(f"this is no announcement of a job: it has {len(body):,} bytes")
    try:
        decoded = TOLD.decode(body)
    except (msgspec.MsgspecError, ValueError) as error:
        raise Malformed(f"this is no announcement of a job: {error}") from error
    told = [decoded] if isinstance(decoded, Announced) else decoded
    if not all(UUID.fullmatch(one.id) for one in told):
        raise Malformed("this is no announcement of a job: it has an id that no job can have")
    return told


def work_call(job: Job) -> dict[str, Any]:
    """A claimed job as a worker in any language is asked to run it."""
    return {
        "jsonrpc": VERSION,
        "method": lane_of(job.target),
        "params": work_params(job),
        "id": job.id,
    }


def work_params(job: Job) -> dict[str, Any]:
    """The keyword arguments, the number of the attempt, and `args` where there are any by place."""
    params: dict[str, Any] = {}
    if isinstance(job.target, HandlerTarget):
        if job.target.kwargs != NO_KWARGS:
            params.update(msgspec.json.decode(job.target.kwargs, type=dict[str, msgspec.Raw]))
        if job.target.args != NO_ARGS:
            params["args"] = job.target.args
    params["attempt"] = job.attempt
    return params


def work_headers(job: Job, deadline: datetime | None) -> dict[str, str]:
    """What fences the attempt, and until when its outcome counts."""
    headers = {TOKEN_HEADER: str(job.token), ATTEMPT_HEADER: str(job.attempt)}
    if deadline is not None:
        headers[DEADLINE_HEADER] = msgspec.to_builtins(deadline)
    return headers
