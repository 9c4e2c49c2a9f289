"""Ready lists: the jobs of one queue, priority and lane that may be claimed once they are due.

Jobs with a group, of any group, have a separate list from those without.
"""

from collections.abc import Sequence
from datetime import datetime

import msgspec

from onbeat.model.queue import Limits
from onbeat.ports.store import ClaimRequest
from onbeat.stores.sql.dialect import Value
from onbeat.stores.sql.values import instant, micros
from onbeat.stores.sqlite.transaction import Transaction, json_array


class ReadyList(msgspec.Struct, frozen=True, array_like=True):
    """`due_at`: of its first job; `next_due_at`: of the first after now; `limits`: of its queue."""

    queue: str
    priority: int
    lane: str
    grouped: bool
    due_at: int
    next_due_at: int | None
    limits: Limits | None

    @property
    def is_by_group(self) -> bool:
        """Whether its groups are claimed separately."""
        return self.grouped and self.limits is not None and self.limits.by_group


LINES = msgspec.json.Decoder(list[ReadyList], strict=False)  # SQLite's booleans are integers


def find_ready_lists(transaction: Transaction, request: ClaimRequest) -> list[ReadyList]:
    """The ready lists that the claimant may take from, due now or later, by priority."""
    # With unary plus SQLite seeks the whole row in the index, and with the greatest time it seeks
    # behind the list: each step is one seek.
    sql = """
        WITH RECURSIVE heads (head) AS (
          SELECT (SELECT seq FROM onbeat_jobs INDEXED BY onbeat_jobs_due WHERE ready
                  ORDER BY queue, priority, lane, grouped, due_at, id LIMIT 1)
          UNION ALL
          SELECT (
            SELECT next.seq FROM onbeat_jobs AS next INDEXED BY onbeat_jobs_due
            WHERE next.ready
              AND (next.queue, next.priority, next.lane, next.grouped, next.due_at)
                  > (+here.queue, +here.priority, +here.lane, +here.grouped, 9223372036854775807)
            ORDER BY next.queue, next.priority, next.lane, next.grouped, next.due_at, next.id
            LIMIT 1)
          FROM heads
          CROSS JOIN onbeat_jobs AS here ON here.seq = head
        )
        SELECT '[' || group_concat(line, ',') || ']'
        FROM (
          SELECT json_array(
                   queue, priority, lane, grouped, due_at,
                   iif(due_at > :now, due_at,
                       (SELECT due_at FROM onbeat_jobs AS later INDEXED BY onbeat_jobs_due
                        WHERE later.ready
                          AND later.queue = onbeat_jobs.queue
                          AND later.priority = onbeat_jobs.priority
                          AND later.lane = onbeat_jobs.lane
                          AND later.grouped = onbeat_jobs.grouped
                          AND later.due_at > :now
                        ORDER BY later.due_at LIMIT 1)),
                   json((SELECT limits FROM onbeat_queues INDEXED BY onbeat_queues_limited
                         WHERE name = onbeat_jobs.queue AND limits IS NOT NULL))) AS line
          FROM heads
          CROSS JOIN onbeat_jobs ON onbeat_jobs.seq = head
          WHERE lane IN (SELECT value FROM json_each(:lanes))
            AND (:queues IS NULL OR queue IN (SELECT value FROM json_each(:queues)))
            AND queue NOT IN (SELECT name
                              FROM onbeat_queues INDEXED BY onbeat_queues_paused
                              WHERE paused)
          ORDER BY priority
        )
    """
    bindings: dict[str, Value] = {
        "now": micros(request.now),
        "lanes": json_array(request.lanes),
        "queues": None if request.queues is None else json_array(request.queues),
    }
    text = transaction.value(sql, bindings)
    return LINES.decode(text) if text else []


def earliest(ready_lists: Sequence[ReadyList]) -> datetime | None:
    following = [line.next_due_at for line in ready_lists if line.next_due_at is not None]
    return instant(min(following)) if following else None
