"""Dead letters: messages that could not be processed."""

from collections.abc import Collection, Sequence
from operator import attrgetter

from onbeat.model.dead_letter import DeadLetter
from onbeat.model.ids import DeadLetterId
from onbeat.stores.sql.dialect import Argument
from onbeat.stores.sql.session import Session


async def add_dead_letters(session: Session, dead_letters: Sequence[DeadLetter]) -> None:
    form = session.forms.dead_letters
    rows = [form.row(one) for one in sorted(dead_letters, key=attrgetter("id"))]
    ending = session.dialect.unless_there("id")
    await session.insert_rows("dead_letters", form.columns, rows, ending)


async def dead_letters(
    session: Session, before: DeadLetterId | None, limit: int, source: str | None
) -> Sequence[DeadLetter]:
    bounds = {"id < ?": before, "source = ?": source}
    used = {text: value for text, value in bounds.items() if value is not None}
    index = "PRIMARY" if source is None else "dead_letters_of_source"
    rest = f"""
        FROM onbeat.dead_letters {session.dialect.use_index(index)}
        WHERE {" AND ".join(["TRUE", *used])}
        ORDER BY id DESC
        LIMIT ?
    """
    return await select_dead_letters(session, rest, *used.values(), limit)


async def dead_letters_by_id(
    session: Session, ids: Collection[DeadLetterId]
) -> Sequence[DeadLetter]:
    rest = f"FROM onbeat.dead_letters WHERE {session.dialect.in_list('id', 'uuid')}"
    return await select_dead_letters(session, rest, tuple(ids))


async def select_dead_letters(
    session: Session, rest: str, *values: Argument
) -> Sequence[DeadLetter]:
    form = session.forms.dead_letters
    return [form.read(row) for row in await session.select(form.names, rest, *values)]


async def delete_dead_letters(session: Session, ids: Collection[DeadLetterId]) -> int:
    dialect = session.dialect
    sql = f"{dialect.delete_from('dead_letters')} WHERE {dialect.in_list('id', 'uuid')}"
    return await session.execute(sql, tuple(ids))
