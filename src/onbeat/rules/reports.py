"""Reports of receivers that answer a callback later: their addresses, and what they mean."""

import hmac
import re
from datetime import UTC, datetime
from math import ceil
from typing import Final

import msgspec

from onbeat.model.ids import JobId, Token
from onbeat.model.job import Job
from onbeat.model.limits import INTEGER_MAX
from onbeat.model.outcome import Cancelled, Failed, Outcome
from onbeat.rules.fence import Fence

PATH: Final = "/api/reports/"
ROUTE: Final = PATH + "{id}"
SEAL: Final = re.compile(
    r"(?P<token>0|[1-9][0-9]{0,18})\.(?P<until>0|[1-9][0-9]{0,10})\.(?P<digest>[A-Za-z0-9_-]{22})",
    re.ASCII,
)


class ReportRight(msgspec.Struct, frozen=True):
    """The right to report one attempt of a job, until an instant of a whole second."""

    token: Token
    until: datetime


def report_url(base: str, fence: Fence, id: JobId, right: ReportRight) -> str:
    """The address below `base`. Who knows it may settle this attempt, and nothing else.

    The right is in the query, which nobody logs.
    """
    return f"{base.rstrip('/')}{PATH}{id}?seal={seal(fence, id, right)}"


def seal(fence: Fence, id: JobId, right: ReportRight) -> str:
    """The right as text, with a keyed digest of it and of the job (HMAC-SHA-256, 128 bits)."""
    seconds = ceil(right.until.timestamp())
    return f"{right.token}.{seconds}.{digest(fence, id, right.token, seconds)}"


def open_seal(fence: Fence, id: JobId, text: str) -> ReportRight | None:
    """The right that was sealed; None if the seal is forged or belongs to another job."""
    match = SEAL.fullmatch(text)
    if match is None:
        return None
    token, seconds = Token(int(match["token"])), int(match["until"])
    is_ours = hmac.compare_digest(match["digest"], digest(fence, id, token, seconds))
    if not is_ours or token > INTEGER_MAX:
        return None
    return ReportRight(token, datetime.fromtimestamp(seconds, UTC))


def digest(fence: Fence, id: JobId, token: Token, seconds: int) -> str:
    return fence.digest_of(f"report\n{id}\n{token}\n{seconds}")


def unreported(job: Job) -> Outcome:
    """The outcome of an attempt whose receiver has not reported until its deadline."""
    if job.cancel_reason is not None:
        return Cancelled(job.cancel_reason)
    assert job.started_at is not None, "a running job has started"
    assert job.lease_until is not None, "a receiver holds a timed lease"
    seconds = (job.lease_until - job.started_at).total_seconds()
    return Failed(
        f"the receiver answered 202, but did not report within {seconds:.3g} s: report earlier, or "
        "give the job a longer timeout"
    )
