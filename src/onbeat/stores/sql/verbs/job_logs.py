"""The log lines of jobs."""

from collections.abc import Sequence
from typing import Any, Final

from onbeat.model.ids import JobId
from onbeat.model.log_line import JobLogLine, LineKey
from onbeat.stores.sql.dialect import Argument, Columns, Row
from onbeat.stores.sql.session import Session
from onbeat.stores.sql.values import instant, micros

COLUMNS: Final[Columns] = {
    "job_id": "uuid",
    "number": "bigint",
    "attempt": "integer",
    "at": "bigint",
    "level": "text",
    "logger": "text",
    "text": "text",
    "fields": "text",
}
NAMES: Final = ", ".join(COLUMNS)


def line_row(line: JobLogLine) -> Row:
    place = (line.job_id, line.number, line.attempt, micros(line.at))
    return (*place, line.level, line.logger, line.text, line.fields)


def read_line(row: Sequence[Any]) -> JobLogLine:
    id, number, attempt, at, level, logger, text, fields = row
    return JobLogLine(
        job_id=JobId(str(id)),
        number=number,
        attempt=attempt,
        at=instant(at),
        level=level,
        logger=logger,
        text=text,
        fields=fields,
    )


async def add_log_lines(session: Session, rows: Sequence[Row]) -> int:
    """A line that came after its job was deleted would stay for ever, so those are left out."""
    if not rows:
        return 0
    ids = tuple({row[0] for row in rows})
    of_these = session.dialect.in_list("id", "uuid")
    rest = f"""
        FROM (SELECT id FROM onbeat.jobs WHERE {of_these}
              UNION ALL
              SELECT id FROM onbeat.finished WHERE {of_these}) AS known
    """  # noqa: S608  values are bound
    known = {str(id) for (id,) in await session.select("id", rest, ids, ids)}
    kept = sorted(row for row in rows if row[0] in known)
    ending = session.dialect.unless_there("job_id", "number")
    return await session.insert_rows("job_logs", COLUMNS, kept, ending) if kept else 0


async def log_lines(
    session: Session, job: JobId, after: int, limit: int, attempt: int | None = None
) -> Sequence[JobLogLine]:
    bounds: dict[str, Argument] = {"job_id = ?": job, "number > ?": after}
    if attempt is not None:
        bounds["attempt = ?"] = attempt
    where = f"WHERE {' AND '.join(bounds)} ORDER BY number LIMIT ?"
    return await select_lines(session, where, *bounds.values(), limit)


async def export_log_lines(
    session: Session, after: LineKey | None, limit: int
) -> Sequence[JobLogLine]:
    """Reads one range of the index for the rest of a job, and one for the other jobs."""
    rest: list[JobLogLine] = []
    others: tuple[str, tuple[Argument, ...]] = "TRUE", ()
    if after is not None:
        rest = await select_lines(
            session, "WHERE job_id = ? AND number > ? ORDER BY number LIMIT ?", *after, limit
        )
        others = "job_id > ?", (after[0],)
    where = f"WHERE {others[0]} ORDER BY job_id, number LIMIT ?"
    return [*rest, *await select_lines(session, where, *others[1], limit - len(rest))]


async def select_lines(session: Session, where: str, *values: Argument) -> list[JobLogLine]:
    table = f"onbeat.job_logs {session.dialect.use_index('PRIMARY')}"
    return list(map(read_line, await session.select(NAMES, f"FROM {table} {where}", *values)))
