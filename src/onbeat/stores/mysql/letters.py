"""Dead letters: messages that were put aside."""

from collections.abc import Collection, Sequence

import msgspec

from onbeat.model.ids import LetterId
from onbeat.model.letter import DeadLetter
from onbeat.stores.mysql.transaction import Row, Transaction
from onbeat.stores.sql.values import instant, micros, to_json

HEADERS = msgspec.json.Decoder(dict[str, str])
COLUMNS = "id, at, source, reason, body, headers"


def read_letters(rows: Sequence[Row]) -> list[DeadLetter]:
    return [
        DeadLetter(
            id=id,
            at=instant(at),
            source=source,
            reason=reason,
            body=bytes(body),
            headers=HEADERS.decode(headers),
        )
        for id, at, source, reason, body, headers in rows
    ]


async def bury(transaction: Transaction, letters: Sequence[DeadLetter]) -> None:
    await transaction.insert(
        f"""
        INSERT INTO dead_letters ({COLUMNS})
        VALUES (%s, %s, %s, %s, %s, %s)
        ON DUPLICATE KEY UPDATE id = id
        """,  # noqa: S608  values are bound
        [
            (one.id, micros(one.at), one.source, one.reason, one.body, to_json(one.headers))
            for one in sorted(letters, key=lambda one: one.id)
        ],
    )


class Listing(msgspec.Struct, frozen=True):
    """None stands for no bound, and for any source."""

    before: LetterId | None
    limit: int
    source: str | None


async def dead_letters(transaction: Transaction, asked: Listing) -> list[DeadLetter]:
    conditions = ["TRUE"]
    if asked.before is not None:
        conditions.append("id < %(before)s")
    if asked.source is not None:
        conditions.append("source = %(source)s")
    index = "PRIMARY" if asked.source is None else "dead_letters_of_source"
    sql = f"""
        SELECT {COLUMNS}
        FROM dead_letters FORCE INDEX ({index})
        WHERE {" AND ".join(conditions)}
        ORDER BY id DESC
        LIMIT %(limit)s
    """  # noqa: S608  values are bound
    return read_letters(await transaction.rows(sql, msgspec.structs.asdict(asked)))


async def dead_letters_by_id(
    transaction: Transaction, ids: Collection[LetterId]
) -> list[DeadLetter]:
    if not ids:
        return []
    sql = f"SELECT {COLUMNS} FROM dead_letters WHERE id IN %s"  # noqa: S608  values are bound
    return read_letters(await transaction.rows(sql, (tuple(ids),)))


async def exhume(transaction: Transaction, ids: Collection[LetterId]) -> int:
    if not ids:
        return 0
    sql = """
        DELETE dead_letters FROM dead_letters FORCE INDEX (PRIMARY) WHERE id IN %s
    """
    return await transaction.run(sql, (tuple(ids),))
