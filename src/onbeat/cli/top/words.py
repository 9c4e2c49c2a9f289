"""The picture in words: lines, tiles and tables, for a terminal of any kind."""

from collections.abc import Mapping, Sequence
from datetime import datetime, tzinfo
from typing import Final, Literal

import msgspec
from rich.cells import cell_len

from onbeat.cli.pulse import line
from onbeat.cli.times import relative
from onbeat.cli.top.records import (
    FailureLine,
    FireLine,
    HourRates,
    Picture,
    QueueLine,
    Trouble,
    WorkerLine,
)
from onbeat.dashboard.formats import duration, number, rate, short_number, shown
from onbeat.model.limits import FAULT_LISTED_JOBS_MAX
from onbeat.rules.verdict import QueueState

Tone = Literal["ok", "warn", "fail", "plain", "dim"]

UNKNOWN: Final = "unknown"
MARKS: Final[dict[Tone, str]] = {"ok": "✓", "warn": "!", "fail": "✗", "plain": " ", "dim": " "}
"""A mark beside each colour: colour alone is no sign."""


class Words(msgspec.Struct, frozen=True):
    text: str
    tone: Tone = "plain"


class Tile(msgspec.Struct, frozen=True, kw_only=True):
    name: str
    value: str
    note: str
    tone: Tone = "plain"


class Row(msgspec.Struct, frozen=True):
    """`key` is the same in each picture that has the thing."""

    key: str
    cells: tuple[str, ...]
    tone: Tone = "plain"


class Column(msgspec.Struct, frozen=True):
    name: str
    is_number: bool = False


class Rows(msgspec.Struct, frozen=True, kw_only=True):
    name: str
    columns: tuple[Column, ...]
    rows: tuple[Row, ...]
    empty: str


QUEUE_COLUMNS: Final = (
    Column("Queue"),
    Column("Due", is_number=True),
    Column("Waiting", is_number=True),
    Column("Running", is_number=True),
    Column("Oldest due", is_number=True),
    Column("State"),
)
FAILURE_COLUMNS: Final = (
    Column("Error"),
    Column("Task"),
    Column("For good", is_number=True),
    Column("To retry", is_number=True),
    Column("Last"),
)
WORKER_COLUMNS: Final = (
    Column("Worker"),
    Column("Running", is_number=True),
    Column("State"),
    Column("Longest job"),
)
FIRE_COLUMNS: Final = (Column("Schedule"), Column("When"), Column(""), Column("Rule"))
TITLE_CHARS: Final = 60
NAME_CHARS: Final = 40
TEXT_CHARS_MIN: Final = 6


def one_line(text: str, most: int | None = None) -> str:
    """Without control characters and line ends, and cut with a mark."""
    plain = " ".join(shown(text).split())
    return plain if most is None or len(plain) <= most else plain[: most - 1] + "…"


def moment(at: datetime, now: datetime, zone: tzinfo | None) -> str:
    """The time of day today, else the day too; None is the zone of this machine."""
    there, today = at.astimezone(zone), now.astimezone(zone)
    return f"{there:%H:%M:%S}" if there.date() == today.date() else f"{there:%d %b %H:%M}"


def verdict(picture: Picture, zone: tzinfo | None) -> tuple[Words, Words]:
    """What is broken and since when, and a second line that tells more."""
    if not picture.troubles:
        return Words("All on time", "ok"), Words(calm_words(picture, zone), "dim")
    worst, *others = picture.troubles
    parts = [one_line(worst.detail)]
    if worst.since is not None:
        span = duration(picture.at - worst.since)
        parts.insert(0, f"Since {moment(worst.since, picture.at, zone)}, {span}.")
    if worst.silenced:
        parts.append("Silenced.")
    if others:
        parts.append(f"And {len(others):,} more.")
    return Words(one_line(worst.text), worst.level), Words(" ".join(parts))


def calm_words(picture: Picture, zone: tzinfo | None) -> str:
    if picture.last_failure is None:
        return "No attempt has failed."
    at = moment(picture.last_failure, picture.at, zone)
    return f"The last failed attempt was at {at}, {relative(picture.last_failure, picture.at)}."


def trouble_lines(troubles: Sequence[Trouble], now: datetime, zone: tzinfo | None) -> list[Words]:
    lines: list[Words] = []
    for one in troubles:
        since = "" if one.since is None else f" since {moment(one.since, now, zone)}"
        lines.append(Words(f"{one_line(one.text)}{since}: {one_line(one.detail)}", one.level))
    return lines


def tiles(picture: Picture) -> tuple[Tile, ...]:
    """Six numbers, each with what it is of."""
    now = picture.numbers
    oldest = now.oldest_due_seconds
    silent = f", {now.silent:,} silent" if now.silent else " workers"
    people = "1 worker" if (now.workers, now.silent) == (1, 0) else f"{now.workers:,}{silent}"
    return (
        Tile(name="Started", value=rate_or_unknown(now.started), note="last minute"),
        Tile(
            name="Failed",
            value=rate_or_unknown(now.failed),
            note="last minute",
            tone="fail" if now.failed else "plain",
        ),
        Tile(
            name="Oldest due",
            value="none" if oldest is None else duration(oldest),
            note=one_line(now.oldest_due_queue or "", NAME_CHARS),
        ),
        Tile(name="Due now", value=number(now.due), note=f"{short_number(now.waiting)} waiting"),
        Tile(
            name="Running",
            value=f"{number(now.running)} of {number(now.slots)}",
            note=people,
            tone="warn" if now.silent else "plain",
        ),
        Tile(
            name="Next 10 min",
            value="many" if now.fires is None else number(now.fires),
            note="100+ schedules" if now.fires is None else "occurrences",
        ),
    )


def rate_or_unknown(value: float | None) -> str:
    return UNKNOWN if value is None else rate(value)


def sparks(rates: HourRates, columns: int) -> tuple[tuple[str, str, str], ...]:
    """Name, bars and highest value of both rates."""
    return tuple(
        (name, line(values, max(1, columns)), f"most {most_of(values)}")
        for name, values in (("started", rates.started), ("failed", rates.failed))
    )


def most_of(values: Sequence[float | None]) -> str:
    return rate_or_unknown(max((value for value in values if value is not None), default=None))


def tables(picture: Picture, zone: tzinfo | None) -> tuple[Rows, ...]:
    now = picture.at
    return (
        Rows(
            name="Queues",
            columns=QUEUE_COLUMNS,
            rows=tuple(map(queue_row, picture.queues)),
            empty="No queue has a job.",
        ),
        Rows(
            name="Failures",
            columns=FAILURE_COLUMNS,
            rows=tuple(failure_row(one, now) for one in picture.failures),
            empty="Nothing has failed.",
        ),
        Rows(
            name="Workers",
            columns=WORKER_COLUMNS,
            rows=tuple(worker_row(one, now) for one in picture.workers),
            empty="No worker is alive: `onbeat up app.py` starts one.",
        ),
        Rows(
            name="Next occurrences",
            columns=FIRE_COLUMNS,
            rows=tuple(fire_row(one, now, zone) for one in picture.fires),
            empty="Too many schedules to look at."
            if picture.numbers.fires is None
            else "Nothing is planned.",
        ),
    )


QUEUE_WORDS: Final[Mapping[QueueState, str]] = {
    "late": "late", "full": "limited", "paused": "paused", "flowing": "flowing", "idle": "idle",
}  # fmt: skip


def queue_row(queue: QueueLine) -> Row:
    most = "" if queue.running_max is None else f" of {queue.running_max:,}"
    oldest = "" if queue.oldest_due_seconds is None else duration(queue.oldest_due_seconds)
    cells = (
        one_line(queue.name, NAME_CHARS),
        number(queue.due),
        number(queue.waiting),
        f"{number(queue.running)}{most}",
        oldest,
        QUEUE_WORDS[queue.state],
    )
    is_calm = queue.state in {"flowing", "idle"}
    return Row(queue.name, cells, "plain" if is_calm else "warn")


def failure_row(failure: FailureLine, now: datetime) -> Row:
    cells = (
        one_line(failure.title, TITLE_CHARS),
        one_line(failure.task, NAME_CHARS),
        counted(failure.failed),
        counted(failure.waiting),
        "silenced" if failure.silenced else relative(failure.last_at, now),
    )
    return Row(failure.fault, cells, "dim" if failure.silenced else "plain")


def counted(jobs: int) -> str:
    """Jobs of a fault are counted up to a limit."""
    most = FAULT_LISTED_JOBS_MAX
    return f"> {most:,}" if jobs > most else f"{jobs:,}"


def worker_row(worker: WorkerLine, now: datetime) -> Row:
    slots = "" if worker.slots is None else f" of {worker.slots:,}"
    state = "remote" if worker.remote else "alive" if worker.alive else "silent"
    if state == "silent" and worker.beat_at is not None:
        state = f"silent, heard {relative(worker.beat_at, now)}"
    cells = (
        one_line(worker.name, NAME_CHARS),
        f"{number(worker.running)}{slots}",
        state,
        longest(worker, now),
    )
    return Row(worker.id, cells, "plain" if worker.alive else "warn")


def longest(worker: WorkerLine, now: datetime) -> str:
    started = [(job.started_at, job.task) for job in worker.jobs if job.started_at is not None]
    if not started:
        return ""
    at, task = min(started)
    return f"{one_line(task, NAME_CHARS)}, {duration(max(now - at, now - now))}"


def fire_row(fire: FireLine, now: datetime, zone: tzinfo | None) -> Row:
    cells = (
        one_line(fire.name, NAME_CHARS),
        moment(fire.at, now, zone),
        relative(fire.at, now),
        one_line(fire.rule, TITLE_CHARS),
    )
    return Row(fire.id, cells)


def widths(rows: Rows, room: int) -> tuple[int, ...]:
    """Of each column in cells of the terminal; texts give way, the widest first, numbers do not."""
    found = [
        max([len(column.name), *(cell_len(row.cells[place]) for row in rows.rows)])
        for place, column in enumerate(rows.columns)
    ]
    texts = [place for place, column in enumerate(rows.columns) if not column.is_number]
    while sum(found) > room:
        widest = max(texts, key=lambda place: found[place])
        if found[widest] <= TEXT_CHARS_MIN:
            break
        found[widest] -= 1
    return tuple(found)
