"""Lines: the jobs of one queue, priority and lane that may be claimed once they are due."""

from collections.abc import Collection, Sequence

import msgspec

from onbeat.stores.mysql.transaction import Row, Transaction

SEEKS_MAX = 200  # in one statement
PRIORITY_DIGITS = 5
PRIORITY_ZERO = 32_768
LENGTH_DIGITS = 3


class Line(msgspec.Struct, frozen=True):
    """`text` is its name in the index; `due_at` is when its first job is due."""

    text: str
    queue: str
    priority: int
    lane: str
    due_at: int


def read_line(text: str, due_at: int) -> Line:
    queue_ends = LENGTH_DIGITS + int(text[:LENGTH_DIGITS])
    lane_begins = queue_ends + PRIORITY_DIGITS
    return Line(
        text,
        queue=text[LENGTH_DIGITS:queue_ends],
        priority=int(text[queue_ends:lane_begins]) - PRIORITY_ZERO,
        lane=text[lane_begins:],
        due_at=due_at,
    )


async def find_lines(transaction: Transaction, known: Collection[str]) -> list[Line]:
    """All lines in which a job waits, at the cost of one seek for each, however long they are.

    What comes behind each that was known before is looked up at once; only behind those that are
    new is another look needed. The servers would read the whole index for the same answer.
    """
    found: dict[str, int] = {}
    behind = {"", *known}
    while behind:
        heads: dict[str, int] = dict(await next_heads(transaction, sorted(behind)))
        behind = heads.keys() - found.keys() - behind
        found |= heads
    return [read_line(text, due_at) for text, due_at in found.items()]


async def next_heads(transaction: Transaction, texts: Sequence[str]) -> list[Row]:
    """The line that comes next behind each of these, and when its first job is due."""
    sql = """
        (SELECT line, due_at
         FROM jobs FORCE INDEX (jobs_due)
         WHERE line > %s
         ORDER BY line, due_at, id
         LIMIT 1)
    """
    return await each(transaction, sql, [(text,) for text in texts])


async def later_heads(transaction: Transaction, lines: Sequence[Line], now: int) -> list[Row]:
    """When the first job after now is due in each of the lines that have one."""
    sql = """
        (SELECT due_at
         FROM jobs FORCE INDEX (jobs_due)
         WHERE line = %s AND due_at > %s
         ORDER BY due_at, id
         LIMIT 1)
    """
    return await each(transaction, sql, [(line.text, now) for line in lines])


async def each(transaction: Transaction, select: str, values: Sequence[Row]) -> list[Row]:
    """The rows of the same SELECT for each of the values."""
    rows: list[Row] = []
    for start in range(0, len(values), SEEKS_MAX):
        part = values[start : start + SEEKS_MAX]
        sql = " UNION ALL ".join([select] * len(part))
        rows += await transaction.rows(sql, [value for row in part for value in row])
    return rows
