"""A program whose jobs write a row and end in one transaction, killed while they do."""

import os
import sys
from datetime import timedelta
from pathlib import Path

import apsw
import asyncpg

from onbeat import Context, Onbeat, Options
from onbeat.engine.options import RuntimeOptions

PLACE = Path("store").read_text()
beat = Onbeat(
    PLACE,
    options=Options(runtime=RuntimeOptions(concurrency=10), drain_timeout=timedelta(seconds=0.3)),
)


@beat.task("mail")
async def mail(number: int) -> None: ...


@beat.task("book.sqlite")
def book_in_sqlite(context: Context, number: int) -> str:
    db = apsw.Connection(PLACE.removeprefix("sqlite:///"))
    db.set_busy_timeout(20_000)
    db.execute("BEGIN IMMEDIATE")
    db.execute("INSERT INTO ledger VALUES (?)", (number,))
    beat.in_transaction(db).send(mail.call(number))
    context.finish_in_transaction(db, "booked")
    db.execute("COMMIT")
    db.close()
    say(number)
    return "booked"


@beat.task("book.postgresql")
async def book_in_postgresql(context: Context, number: int) -> str:
    db = await asyncpg.connect(PLACE)
    try:
        async with db.transaction():
            await db.execute("INSERT INTO ledger VALUES ($1)", number)
            await beat.in_transaction(db).asend(mail.call(number))
            await context.finish_in_transaction(db, "booked")
    finally:
        await db.close()
    say(number)
    return "booked"


def say(number: int) -> None:
    """Unlike `print`, one write: threads do not mix their words."""
    os.write(1, f"booked {number};\n".encode())


if sys.argv[1] == "send":
    task = book_in_sqlite if PLACE.startswith("sqlite:") else book_in_postgresql
    beat.send([task.call(number) for number in range(int(sys.argv[2]))])
    beat.backend.wait_for(beat.aclose())
    beat.backend.portal.close()
else:
    beat.run()
