"""Leases while they last: who holds them, until when, and who takes them over."""

from collections.abc import Sequence
from typing import Any

from onbeat.model.ids import JobId, Token, WorkerId
from onbeat.model.job import Job
from onbeat.model.worker import CARRIER
from onbeat.ports.store import Held
from onbeat.stores.postgres.rows import LIVE_COLUMNS, columns, read_jobs
from onbeat.stores.postgres.transaction import Transaction

Start = tuple[JobId, Token, WorkerId, int]
"""A lease to be taken over, by which worker and at which instant."""
Renewal = tuple[JobId, Token, int]
"""A timed lease, and until when it shall run."""

HELD = "SELECT id, token, cancel_reason FROM jobs WHERE worker = $1 AND running ORDER BY id"


async def held(transaction: Transaction, worker: WorkerId) -> list[Held]:
    return read_held(await transaction.rows(HELD, worker))


def read_held(rows: Sequence[Any]) -> list[Held]:
    return [
        Held(job_id=JobId(str(id)), token=Token(token), cancel_reason=reason)
        for id, token, reason in rows
    ]


START = f"""
    UPDATE jobs
    SET worker = asked.starter, started_at = asked.at, timed = NULL, lease_until = NULL
    FROM unnest($1::uuid[], $2::integer[], $3::text[], $4::bigint[])
         AS asked (job_id, lease, starter, at)
    WHERE jobs.id = asked.job_id
      AND jobs.token = asked.lease
      AND running IS NOT DISTINCT FROM TRUE
      AND (timed OR starts_with(worker, '{CARRIER}'))
    RETURNING {LIVE_COLUMNS}
"""  # noqa: S608  no value in it
STARTED_BEFORE = f"""
    SELECT {LIVE_COLUMNS}
    FROM unnest($1::uuid[], $2::integer[], $3::text[]) AS asked (job_id, lease, starter)
    JOIN jobs ON jobs.id = asked.job_id
    WHERE jobs.token = asked.lease
      AND running IS NOT DISTINCT FROM TRUE
      AND worker IS NOT DISTINCT FROM asked.starter
"""  # noqa: S608  as above


async def start(transaction: Transaction, starts: Sequence[Start]) -> list[Job | None]:
    """One statement; another only where leases are not to be had, as they may be ours already.

    Rows are locked in the order of their ids, so that two that start the same do not lock each
    other out.
    """
    ordered = sorted(set(starts))
    found = by_lease(await transaction.rows(START, *columns(ordered)))
    missing = [one[:3] for one in ordered if one[:3] not in found]
    if missing:
        found |= by_lease(await transaction.rows(STARTED_BEFORE, *columns(missing)))
    return [found.get(one[:3]) for one in starts]


def by_lease(rows: Sequence[Any]) -> dict[tuple[str, int, str | None], Job]:
    return {(job.id, job.token, job.worker): job for job in read_jobs(rows)}


RENEW = """
    UPDATE jobs
    SET lease_until = asked.until
    FROM unnest($1::uuid[], $2::integer[], $3::bigint[]) AS asked (job_id, lease, until)
    WHERE jobs.id = asked.job_id
      AND jobs.token = asked.lease
      AND running IS NOT DISTINCT FROM TRUE
      AND timed IS NOT DISTINCT FROM TRUE
    RETURNING id, token, cancel_reason
"""


async def renew(transaction: Transaction, renewals: Sequence[Renewal]) -> list[Held | None]:
    """Of several renewals of one lease the last stands. No index is touched."""
    last = {(id, token): until for id, token, until in renewals}
    rows = [(*lease, last[lease]) for lease in sorted(last)]
    found = read_held(await transaction.rows(RENEW, *columns(rows)))
    kept = {(one.job_id, one.token): one for one in found}
    return [kept.get((id, token)) for id, token, _ in renewals]
