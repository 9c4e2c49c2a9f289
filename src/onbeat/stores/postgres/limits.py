"""What limited queues may start, by their running jobs and buckets, and the turns of their groups.

The caller has locked these queues, so that no other claim changes usage or turns meanwhile.
"""

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from datetime import datetime

from onbeat.model.ids import JobId
from onbeat.model.job import Job
from onbeat.model.queue import NO_LIMITS, Limits, Rate
from onbeat.rules.fairness import KEPT, GroupKey, should_prune_turns
from onbeat.rules.limits import UNLIMITED, Allowance, allowance, full_again_at
from onbeat.stores.postgres.rows import columns
from onbeat.stores.postgres.transaction import Transaction
from onbeat.stores.sql.values import instant

Member = tuple[str, str | None]
"""A queue and one of its groups; None for the queue itself."""


class LimitUsage:
    """The usage of limits under lock, and the jobs started since."""

    def __init__(
        self,
        limits: Mapping[str, Limits],
        running: Mapping[Member, int],
        full_at: Mapping[Member, datetime],
        now: datetime,
    ) -> None:
        self.limits = limits
        self._running = running
        self._full_at = full_at
        self._now = now
        self._allowances: dict[Member, Allowance] = {}
        self._started: Counter[Member] = Counter()

    def of_queue(self, queue: str) -> Allowance:
        return self._allowance((queue, None))

    def of_group(self, queue: str, group: str | None) -> Allowance:
        return UNLIMITED if group is None else self._allowance((queue, group))

    def admits(self, queue: str, group: str | None) -> bool:
        return self.of_queue(queue).count != 0 and self.of_group(queue, group).count != 0

    def again_at(self, queue: str, group: str | None) -> datetime | None:
        """When more may start if rate limits are reached; None if none is."""
        members = ((queue, None), (queue, group))
        times = [self._again_at(member) for member in members[: 1 if group is None else 2]]
        return max((time for time in times if time is not None), default=None)

    def note(self, started: Sequence[Job]) -> None:
        for job in started:
            self._started[job.queue, None] += 1
            if job.group is not None:
                self._started[job.queue, job.group] += 1

    def drawn_buckets(self) -> list[tuple[str, str, datetime]]:
        """The buckets that were used, and when each will be full again."""
        return [
            (
                queue,
                group or "",
                full_again_at(rate, self._full_at.get((queue, group)), self._now, count),
            )
            for (queue, group), count in self._started.items()
            if (rate := self._bounds((queue, group))[1]) is not None
        ]

    def _again_at(self, member: Member) -> datetime | None:
        result = self._allowance(member)
        is_used_up = result.count is not None and self._started[member] >= result.count
        return result.again_at if is_used_up else None

    def _allowance(self, member: Member) -> Allowance:
        if member not in self._allowances:
            concurrency, rate = self._bounds(member)
            self._allowances[member] = allowance(
                concurrency,
                rate,
                running=self._running.get(member, 0),
                full_at=self._full_at.get(member),
                now=self._now,
            )
        return self._allowances[member]

    def _bounds(self, member: Member) -> tuple[int | None, Rate | None]:
        queue, group = member
        limits = self.limits.get(queue, NO_LIMITS)
        if group is None:
            return limits.concurrency, limits.rate
        return limits.group_concurrency, limits.group_rate


async def count(transaction: Transaction, ids: Sequence[JobId]) -> None:
    """Mark the jobs as running in limited queues."""
    if ids:
        await transaction.run("UPDATE jobs SET counted = TRUE WHERE id = ANY($1::uuid[])", ids)


async def count_all(transaction: Transaction, queues: Sequence[str]) -> None:
    """Mark jobs that started in these queues before they were limited.

    The queues are locked, and no running claim can be unaware of their limits.
    """
    if not queues:
        return
    await transaction.run(
        """
        UPDATE jobs SET counted = TRUE
        WHERE running AND queue = ANY($1::text[]) AND counted IS NULL
        """,
        queues,
    )
    await transaction.run(
        "UPDATE queues SET is_counted = TRUE WHERE name = ANY($1::text[])", queues
    )


async def read_usage(
    transaction: Transaction,
    limits: Mapping[str, Limits],
    counted: Collection[str],
    groups: Collection[Member],
    now: datetime,
) -> LimitUsage:
    """The usage of these queues, which the caller has locked, and of their groups with jobs.

    If running jobs are not marked as counted, all running jobs of the store are read.
    """
    bounded = [queue for queue, one in limits.items() if is_bounded(one)]
    members = [(queue, group or "") for queue, group in groups if queue in limits]
    running: Counter[Member] = Counter()
    full_at: dict[Member, datetime] = {}
    if members:
        rows = await transaction.rows(
            """
            SELECT queue, grp, count(*), NULL::bigint
            FROM jobs
            WHERE (running AND counted) IS TRUE AND queue = ANY($1::text[])
            GROUP BY queue, grp
            UNION ALL
            SELECT queue, grp, count(*), NULL
            FROM jobs
            WHERE cardinality($2::text[]) > 0 AND running AND queue = ANY($2)
            GROUP BY queue, grp
            UNION ALL
            SELECT meters.queue, nullif(meters.grp, ''), 0, full_at
            FROM unnest($3::text[], $4::text[]) AS asked (queue, grp)
            JOIN meters ON meters.queue = asked.queue AND meters.grp = asked.grp
            """,
            [queue for queue in bounded if queue in counted],
            [queue for queue in bounded if queue not in counted],
            *columns(members),
        )
        for queue, group, count, at in rows:
            if at is not None:
                full_at[queue, group] = instant(at)
                continue
            running[queue, None] += count
            if group is not None:
                running[queue, group] += count
    return LimitUsage(limits, running, full_at, now)


def is_bounded(limits: Limits) -> bool:
    return limits.concurrency is not None or limits.group_concurrency is not None


async def store_turns(transaction: Transaction, given: Mapping[GroupKey, int]) -> None:
    """Store the turns of groups that gave out jobs, and now and then delete old turns."""
    if not given:
        return
    rows = await transaction.rows(
        """
        INSERT INTO turns (queue, priority, grp, turn)
        SELECT queue, priority, grp, place + coalesce(
                 (SELECT newest.turn FROM turns AS newest WHERE newest.queue = given.queue
                  ORDER BY newest.turn DESC LIMIT 1), 0)
        FROM unnest($1::text[], $2::smallint[], $3::text[], $4::integer[])
             AS given (queue, priority, grp, place)
        ON CONFLICT (queue, priority, grp) DO UPDATE SET turn = excluded.turn
        RETURNING queue, turn
        """,
        *columns([(*group_key, place) for group_key, place in given.items()]),
    )
    newest: dict[str, int] = {}
    for queue, turn in rows:
        newest[queue] = max(turn, newest.get(queue, 0))
    count = max(given.values())
    passed = [queue for queue, turn in newest.items() if should_prune_turns(turn, count)]
    if passed:
        await transaction.run(
            """
            DELETE FROM turns
            USING unnest($1::text[], $2::bigint[]) AS passed (queue, newest)
            WHERE turns.queue = passed.queue AND turns.turn <= passed.newest - $3
            """,
            passed,
            [newest[queue] for queue in passed],
            KEPT,
        )
