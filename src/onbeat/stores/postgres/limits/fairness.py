"""Turns of groups in fair queues, by `rules.fairness`.

The caller has locked these queues, so that no other claim changes turns meanwhile.
"""

from collections.abc import Mapping

from onbeat.rules.fairness import KEPT, GroupKey, should_prune_turns
from onbeat.stores.postgres.rows import columns
from onbeat.stores.postgres.transaction import Transaction


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
        *columns([(*group_key, dsn) for group_key, dsn in given.items()]),
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
