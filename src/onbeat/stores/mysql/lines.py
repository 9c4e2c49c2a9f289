"""Lines: the jobs of one queue, priority and lane that may be claimed once they are due.

Those in a group, of whatever group, have a line apart from those without.
"""

from bisect import bisect_right
from collections.abc import Collection, Iterator, Mapping, Sequence

import msgspec

from onbeat.model.ids import JobId
from onbeat.stores.mysql.transaction import Row, Transaction

SEEKS_MAX = 200  # in one statement
ENTRIES_MAX = 32  # read by one seek for groups, which then takes about twice as long
PRIORITY_DIGITS = 5
PRIORITY_ZERO = 32_768
LENGTH_DIGITS = 3


Kind = tuple[str, str]
LINE: Kind = ("line", "jobs_due")
GROUP: Kind = ("group_line", "jobs_grouped")
"""The column with the names, and its index."""


class Line(msgspec.Struct, frozen=True):
    """`text` is its name in the index; `due_at` is when its first job is due."""

    text: str
    queue: str
    priority: int
    grouped: bool
    lane: str
    due_at: int


def read_line(text: str, due_at: int) -> Line:
    queue_ends = LENGTH_DIGITS + int(text[:LENGTH_DIGITS])
    flag = queue_ends + PRIORITY_DIGITS
    return Line(
        text,
        queue=text[LENGTH_DIGITS:queue_ends],
        priority=int(text[queue_ends:flag]) - PRIORITY_ZERO,
        grouped=text[flag] == "1",
        lane=text[flag + 1 :],
        due_at=due_at,
    )


class Group(msgspec.Struct, frozen=True):
    """A group of a line in which a job waits; `first` is that job, and `due_at` when it is due."""

    text: str
    line: Line
    name: str
    due_at: int
    first: JobId


def group_prefix(line: Line) -> str:
    """How the names of its groups in their index begin."""
    return (
        f"{len(line.queue):0{LENGTH_DIGITS}}{line.queue}"
        f"{line.priority + PRIORITY_ZERO:0{PRIORITY_DIGITS}}"
        f"{len(line.lane):0{LENGTH_DIGITS}}{line.lane}"
    )


def split_group(text: str) -> tuple[str, str]:
    """The prefix of its line, and the group's own name."""
    length = LENGTH_DIGITS + int(text[:LENGTH_DIGITS]) + PRIORITY_DIGITS
    name = length + LENGTH_DIGITS + int(text[length : length + LENGTH_DIGITS])
    return text[:name], text[name:]


async def find_lines(transaction: Transaction, known: Collection[str]) -> list[Line]:
    """All lines in which a job waits, at the cost of one seek for each, however long they are.

    What comes behind each that was known before is looked up at once; only behind those that are
    new is another look needed. The servers would read the whole index for the same answer.
    """
    found: dict[str, int] = {}
    behind = {"", *known}
    while behind:
        heads: dict[str, int] = dict(await next_heads(transaction, behind))
        behind = heads.keys() - found.keys() - behind
        found |= heads
    return [read_line(text, due_at) for text, due_at in found.items()]


class Groups(msgspec.Struct, frozen=True):
    """`starts`: behind which of them to look at once the next time."""

    found: Sequence[Group] = ()
    starts: Collection[str] = ()


async def find_groups(
    transaction: Transaction, asked: tuple[Sequence[Line], Collection[str]]
) -> Groups:
    """All groups of these lines in which a job waits, in much the same way.

    There may be thousands, with a job or two in each. So some entries are read behind each start,
    and again behind the last of them, until the next start is reached.
    """
    lines, known = asked
    by_prefix = {group_prefix(line): line for line in lines}
    entries: dict[str, Row] = {}
    starts: set[str] = set()
    read = 0
    behind = {*by_prefix, *known}
    while behind:
        starts |= behind
        stops = sorted(starts)
        seen = await next_entries(transaction, behind)
        read += sum(map(len, seen.values()))
        for rows in seen.values():
            for row in rows:
                entries.setdefault(row[0], row)  # the first of a group is that of its first job
        behind = {
            last
            for start, rows in seen.items()
            if len(rows) == ENTRIES_MAX
            and split_group(last := rows[-1][0])[0] in by_prefix
            and not reaches_next(stops, start, last)
        }
    found = [group for row in entries.values() for group in groups_in(by_prefix, row)]
    stride = max(1, ENTRIES_MAX * len(entries) // max(1, read))
    return Groups(found, sorted(group.text for group in found)[stride - 1 :: stride])


def groups_in(by_prefix: Mapping[str, Line], row: Row) -> Iterator[Group]:
    """The group of this entry, if it is of one of the lines."""
    text, due_at, first = row
    prefix, name = split_group(text)
    if prefix in by_prefix:
        yield Group(text, by_prefix[prefix], name, due_at, first)


def reaches_next(stops: Sequence[str], start: str, last: str) -> bool:
    """Whether what was read from this start on ends where another one goes on."""
    place = bisect_right(stops, start)
    return place < len(stops) and stops[place] <= last


async def next_entries(transaction: Transaction, starts: Collection[str]) -> dict[str, list[Row]]:
    """Some entries of groups behind each of these."""
    sql = f"""
        (SELECT %s, group_line, due_at, id
         FROM jobs FORCE INDEX (jobs_grouped)
         WHERE group_line > %s
         ORDER BY group_line, due_at, id
         LIMIT {ENTRIES_MAX})
    """  # noqa: S608  values are bound
    ordered = sorted(starts)
    found: dict[str, list[Row]] = {}
    for row in await each(transaction, sql, list(enumerate(ordered))):
        number: int = row[0]
        found.setdefault(ordered[number], []).append(row[1:])
    return found


async def next_heads(transaction: Transaction, texts: Collection[str]) -> list[Row]:
    """The line that comes next behind each of these, and when its first job is due."""
    sql = """
        (SELECT line, due_at
         FROM jobs FORCE INDEX (jobs_due)
         WHERE line > %s
         ORDER BY line, due_at, id
         LIMIT 1)
    """
    return await each(transaction, sql, [(text,) for text in sorted(texts)])


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
