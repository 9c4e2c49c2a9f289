"""Ready lists: the jobs of one queue, priority and lane that may be claimed once they are due.

Jobs with a group, of any group, have a separate list from those without.
"""

from bisect import bisect_right
from collections.abc import Collection, Iterator, Mapping, Sequence

import msgspec

from onbeat.model.ids import JobId
from onbeat.stores.mysql.transaction import Row, Transaction

SEEKS_MAX = 200  # in one statement
ENTRIES_MAX = 32  # entries read by one seek for groups, at about twice the time
PRIORITY_DIGITS = 5
PRIORITY_ZERO = 32_768
LENGTH_DIGITS = 3


Kind = tuple[str, str]
LINE: Kind = ("line", "jobs_due")
GROUP: Kind = ("group_line", "jobs_grouped")
"""The column with the keys of lists, and its index."""


class ReadyList(msgspec.Struct, frozen=True):
    """`text` is its key in the index; `due_at` is that of its first job."""

    text: str
    queue: str
    priority: int
    grouped: bool
    lane: str
    due_at: int


def read_ready_list(text: str, due_at: int) -> ReadyList:
    queue_ends = LENGTH_DIGITS + int(text[:LENGTH_DIGITS])
    flag = queue_ends + PRIORITY_DIGITS
    return ReadyList(
        text,
        queue=text[LENGTH_DIGITS:queue_ends],
        priority=int(text[queue_ends:flag]) - PRIORITY_ZERO,
        grouped=text[flag] == "1",
        lane=text[flag + 1 :],
        due_at=due_at,
    )


class WaitingGroup(msgspec.Struct, frozen=True):
    """A group of a ready list with a waiting job; `first` is that job, `due_at` its due time."""

    text: str
    line: ReadyList
    name: str
    due_at: int
    first: JobId


def group_prefix(ready_list: ReadyList) -> str:
    """The prefix of the keys of its groups in their index."""
    return (
        f"{len(ready_list.queue):0{LENGTH_DIGITS}}{ready_list.queue}"
        f"{ready_list.priority + PRIORITY_ZERO:0{PRIORITY_DIGITS}}"
        f"{len(ready_list.lane):0{LENGTH_DIGITS}}{ready_list.lane}"
    )


def split_group(text: str) -> tuple[str, str]:
    """The prefix of its ready list, and the name of the group."""
    length = LENGTH_DIGITS + int(text[:LENGTH_DIGITS]) + PRIORITY_DIGITS
    name = length + LENGTH_DIGITS + int(text[length : length + LENGTH_DIGITS])
    return text[:name], text[name:]


async def find_ready_lists(transaction: Transaction, known: Collection[str]) -> list[ReadyList]:
    """All ready lists with a waiting job, at one seek for each, however long they are.

    The lists behind all known ones are read in one statement; only new ones need another. A plain
    query would read the whole index for the same answer.
    """
    result: dict[str, int] = {}
    behind = {"", *known}
    while behind:
        heads: dict[str, int] = dict(await next_list_heads(transaction, behind))
        behind = heads.keys() - result.keys() - behind
        result |= heads
    return [read_ready_list(text, due_at) for text, due_at in result.items()]


class WaitingGroups(msgspec.Struct, frozen=True):
    """`starts`: the keys from which to read in the first statement the next time."""

    found: Sequence[WaitingGroup] = ()
    starts: Collection[str] = ()


async def find_groups(
    transaction: Transaction, ready_lists: Sequence[ReadyList], known: Collection[str]
) -> WaitingGroups:
    """All groups of these ready lists with a waiting job, found in a similar way.

    There may be thousands with a job or two in each. So some entries are read behind each start,
    and again behind the last of them, until the next start is reached.
    """
    by_prefix = {group_prefix(line): line for line in ready_lists}
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
                entries.setdefault(row[0], row)  # a group's first entry is that of its first job
        behind = {
            last
            for start, rows in seen.items()
            if len(rows) == ENTRIES_MAX
            and split_group(last := rows[-1][0])[0] in by_prefix
            and not reaches_next(stops, start, last)
        }
    found_rows = [group for row in entries.values() for group in groups_in(by_prefix, row)]
    stride = max(1, ENTRIES_MAX * len(entries) // max(1, read))
    return WaitingGroups(
        found_rows, sorted(group.text for group in found_rows)[stride - 1 :: stride]
    )


def groups_in(by_prefix: Mapping[str, ReadyList], row: Row) -> Iterator[WaitingGroup]:
    """The group of this entry, if it belongs to one of the lists."""
    text, due_at, first = row
    prefix, name = split_group(text)
    if prefix in by_prefix:
        yield WaitingGroup(text, by_prefix[prefix], name, due_at, first)


def reaches_next(stops: Sequence[str], start: str, last: str) -> bool:
    """Whether the entries read from this start reach the next one."""
    dsn = bisect_right(stops, start)
    return dsn < len(stops) and stops[dsn] <= last


async def next_entries(transaction: Transaction, starts: Collection[str]) -> dict[str, list[Row]]:
    """Some entries of groups behind each of these keys."""
    sql = f"""
        (SELECT %s, group_line, due_at, id
         FROM jobs FORCE INDEX (jobs_grouped)
         WHERE group_line > %s
         ORDER BY group_line, due_at, id
         LIMIT {ENTRIES_MAX})
    """  # noqa: S608  values are bound
    ordered = sorted(starts)
    result: dict[str, list[Row]] = {}
    for row in await select_each(transaction, sql, list(enumerate(ordered))):
        number: int = row[0]
        result.setdefault(ordered[number], []).append(row[1:])
    return result


async def next_list_heads(transaction: Transaction, texts: Collection[str]) -> list[Row]:
    """The next ready list behind each of these keys, and when its first job is due."""
    sql = """
        (SELECT line, due_at
         FROM jobs FORCE INDEX (jobs_due)
         WHERE line > %s
         ORDER BY line, due_at, id
         LIMIT 1)
    """
    return await select_each(transaction, sql, [(text,) for text in sorted(texts)])


async def later_list_heads(
    transaction: Transaction, ready_lists: Sequence[ReadyList], now: int
) -> list[Row]:
    """The due time of the first job after now in each of the lists that have one."""
    sql = """
        (SELECT due_at
         FROM jobs FORCE INDEX (jobs_due)
         WHERE line = %s AND due_at > %s
         ORDER BY due_at, id
         LIMIT 1)
    """
    return await select_each(transaction, sql, [(line.text, now) for line in ready_lists])


async def select_each(transaction: Transaction, select: str, values: Sequence[Row]) -> list[Row]:
    """The rows of the same SELECT for each tuple of values."""
    rows: list[Row] = []
    for start in range(0, len(values), SEEKS_MAX):
        part = values[start : start + SEEKS_MAX]
        sql = " UNION ALL ".join([select] * len(part))
        rows += await transaction.rows(sql, [value for row in part for value in row])
    return rows
