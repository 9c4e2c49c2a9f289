"""Lines: the jobs of one queue, priority and lane that may be claimed once they are due.

Those in a group, of whatever group, have a line apart from those without.
"""

from collections.abc import Sequence
from datetime import datetime

import msgspec

from onbeat.model.queue import Limits
from onbeat.ports.store import ClaimRequest
from onbeat.stores.sql.values import instant, micros
from onbeat.stores.sqlite.transaction import Transaction, Value, listed


class Line(msgspec.Struct, frozen=True, array_like=True):
    """When its first job is due, and the first after now, and the limits of its queue, if any."""

    queue: str
    priority: int
    lane: str
    grouped: bool
    due_at: int
    next_due_at: int | None
    limits: Limits | None

    @property
    def is_by_group(self) -> bool:
        """Whether its groups have to be told apart."""
        return self.grouped and self.limits is not None and self.limits.by_group


LINES = msgspec.json.Decoder(list[Line], strict=False)  # SQLite's booleans are numbers


def find_lines(transaction: Transaction, request: ClaimRequest) -> list[Line]:
    """Those that the claimant may take from, due now or later, by priority."""
    # With the pluses SQLite looks for the whole row in the index, and with the latest of times it
    # does so behind the line: each hop is one seek.
    sql = """
        WITH RECURSIVE heads (head) AS (
          SELECT (SELECT seq FROM jobs INDEXED BY jobs_due WHERE ready
                  ORDER BY queue, priority, lane, grouped, due_at, id LIMIT 1)
          UNION ALL
          SELECT (
            SELECT next.seq FROM jobs AS next INDEXED BY jobs_due
            WHERE next.ready
              AND (next.queue, next.priority, next.lane, next.grouped, next.due_at)
                  > (+here.queue, +here.priority, +here.lane, +here.grouped, 9223372036854775807)
            ORDER BY next.queue, next.priority, next.lane, next.grouped, next.due_at, next.id
            LIMIT 1)
          FROM heads
          CROSS JOIN jobs AS here ON here.seq = head
        )
        SELECT '[' || group_concat(line, ',') || ']'
        FROM (
          SELECT json_array(
                   queue, priority, lane, grouped, due_at,
                   iif(due_at > :now, due_at,
                       (SELECT due_at FROM jobs AS later INDEXED BY jobs_due
                        WHERE later.ready
                          AND later.queue = jobs.queue
                          AND later.priority = jobs.priority
                          AND later.lane = jobs.lane
                          AND later.grouped = jobs.grouped
                          AND later.due_at > :now
                        ORDER BY later.due_at LIMIT 1)),
                   json((SELECT limits FROM queues INDEXED BY queues_limited
                         WHERE name = jobs.queue AND limits IS NOT NULL))) AS line
          FROM heads
          CROSS JOIN jobs ON jobs.seq = head
          WHERE lane IN (SELECT value FROM json_each(:lanes))
            AND (:queues IS NULL OR queue IN (SELECT value FROM json_each(:queues)))
            AND queue NOT IN (SELECT name FROM queues INDEXED BY queues_paused WHERE paused)
          ORDER BY priority
        )
    """
    bindings: dict[str, Value] = {
        "now": micros(request.now),
        "lanes": listed(request.lanes),
        "queues": None if request.queues is None else listed(request.queues),
    }
    text = transaction.value(sql, bindings)
    return LINES.decode(text) if text else []


def earliest(lines: Sequence[Line]) -> datetime | None:
    following = [line.next_due_at for line in lines if line.next_due_at is not None]
    return instant(min(following)) if following else None
