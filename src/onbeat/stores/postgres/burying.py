"""Dead letters."""

from collections.abc import Collection, Sequence
from typing import Any

import msgspec

from onbeat.model.ids import LetterId
from onbeat.model.letter import DeadLetter
from onbeat.stores.postgres.rows import columns
from onbeat.stores.postgres.transaction import Transaction
from onbeat.stores.sql.values import instant, micros, to_json


class Record(msgspec.Struct, frozen=True, array_like=True):
    """What no query needs of a dead letter."""

    reason: str
    headers: dict[str, str]


RECORD = msgspec.json.Decoder(Record)
COLUMNS = "id, at, source, record, body"


async def bury(transaction: Transaction, letters: Sequence[DeadLetter]) -> None:
    if letters:
        await transaction.run(
            f"""
            INSERT INTO dead_letters ({COLUMNS})
            SELECT * FROM unnest($1::uuid[], $2::bigint[], $3::text[], $4::text[], $5::bytea[])
            ON CONFLICT DO NOTHING
            """,  # noqa: S608  no value in it
            *columns([letter_row(letter) for letter in letters]),
        )


def letter_row(letter: DeadLetter) -> tuple[object, ...]:
    record = to_json(Record(letter.reason, letter.headers))
    return letter.id, micros(letter.at), letter.source, record, letter.body


def read_letters(rows: Sequence[Any]) -> list[DeadLetter]:
    letters: list[DeadLetter] = []
    for id, at, source, text, body in rows:
        record = RECORD.decode(text)
        letters.append(
            DeadLetter(
                id=LetterId(str(id)),
                at=instant(at),
                source=source,
                reason=record.reason,
                body=body,
                headers=record.headers,
            )
        )
    return letters


class Listing(msgspec.Struct, frozen=True):
    before: LetterId | None
    limit: int
    source: str | None


async def dead_letters(transaction: Transaction, asked: Listing) -> list[DeadLetter]:
    conditions = {"id < ${}": asked.before, "source = ${}": asked.source}
    used = {text: value for text, value in conditions.items() if value is not None}
    where = " AND ".join(["TRUE", *(text.format(place) for place, text in enumerate(used, 2))])
    sql = f"SELECT {COLUMNS} FROM dead_letters WHERE {where} ORDER BY id DESC LIMIT $1"  # noqa: S608  values are bound
    return read_letters(await transaction.rows(sql, asked.limit, *used.values()))


async def dead_letters_by_id(
    transaction: Transaction, ids: Collection[LetterId]
) -> list[DeadLetter]:
    sql = f"SELECT {COLUMNS} FROM dead_letters WHERE id = ANY($1::uuid[])"  # noqa: S608  no value in it
    return read_letters(await transaction.rows(sql, list(ids)))


async def exhume(transaction: Transaction, ids: Collection[LetterId]) -> int:
    return await transaction.run("DELETE FROM dead_letters WHERE id = ANY($1::uuid[])", list(ids))
