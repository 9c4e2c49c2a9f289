"""Messages that could not be used."""

from collections.abc import Collection, Sequence

import msgspec

from onbeat.model.ids import LetterId
from onbeat.model.letter import DeadLetter
from onbeat.stores.sql.values import micros, to_json
from onbeat.stores.sqlite.transaction import Row, Transaction, listed

LETTERS = msgspec.json.Decoder(list[DeadLetter])


def letter_row(letter: DeadLetter) -> Row:
    return (letter.id, micros(letter.at), letter.source, to_json(letter))


def bury(transaction: Transaction, rows: Sequence[Row]) -> None:
    transaction.run_rows(
        """
        INSERT OR IGNORE INTO dead_letters (id, at, source, record)
        SELECT * FROM :rows WHERE column1 IS NOT NULL
        """,
        rows,
    )


def newest(
    transaction: Transaction, asked: tuple[LetterId | None, int, str | None]
) -> list[DeadLetter]:
    sql = """
        SELECT '[' || group_concat(record, ',') || ']'
        FROM (
          SELECT record
          FROM dead_letters
          WHERE id < coalesce(?1, char(0x10FFFF)) AND :source
          ORDER BY id DESC
          LIMIT ?2
        )
    """.replace(":source", "TRUE" if asked[2] is None else "source = ?3")
    return read_letters(transaction.value(sql, asked[:2] if asked[2] is None else asked))


def letters_by_id(transaction: Transaction, ids: Collection[LetterId]) -> list[DeadLetter]:
    sql = """
        SELECT '[' || group_concat(record, ',') || ']'
        FROM dead_letters
        WHERE id IN (SELECT value FROM json_each(?))
    """
    return read_letters(transaction.value(sql, (listed(ids),)))


def read_letters(text: str | None) -> list[DeadLetter]:
    return LETTERS.decode(text) if text else []


def exhume(transaction: Transaction, ids: Collection[LetterId]) -> int:
    sql = "DELETE FROM dead_letters WHERE id IN (SELECT value FROM json_each(?))"
    return transaction.run(sql, (listed(ids),))
