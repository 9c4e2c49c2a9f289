"""Processes that each do one step of the business, and are killed before their statement number N.

A line of its input is `STEP DATABASE UPLOADS N`, and of its output the exit code. The removal of a
file counts as a statement.
"""

import asyncio
import os
import signal
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from credits.config import Config
from credits.database import Session, open_database
from credits.mysql import MysqlSession
from credits.purchases import Payment, book
from credits.sqlite import SqliteSession
from credits.topup import Portion, month_of, top_up
from credits.uploads import folder
from credits.uploads.sweep import sweep

AT = datetime(2025, 12, 1, tzinfo=UTC)
PAID = Payment(session="cs_1", payment="pi_1", user="a", credits=50, cents=500)


class Killer:
    def __init__(self, at: int) -> None:
        self.left = at

    def count(self) -> None:
        self.left -= 1
        if not self.left:
            os.kill(os.getpid(), signal.SIGKILL)

    def before(self, owner: Any, name: str) -> None:
        original = getattr(owner, name)

        async def counted(*args: Any) -> Any:
            self.count()
            return await original(*args)

        setattr(owner, name, counted)


async def step(name: str, session: Session, config: Config) -> None:
    match name:
        case "top_up":
            await top_up(session, month_of(AT, "UTC"), Portion("", "z", final=True), AT)
        case "sweep":
            await sweep(session, config, AT)
        case "book":
            await book(session, PAID, AT)
        case _:
            raise ValueError(name)


async def main(name: str, url: str, uploads: str, at: str) -> None:
    killer = Killer(int(at))
    for owner in (SqliteSession, MysqlSession):
        for method in ("run", "rows", "many"):
            killer.before(owner, method)
    remove = folder.remove

    def removed(root: Path, path: str, before: datetime) -> folder.Fate:
        killer.count()
        fate = remove(root, path, before)
        killer.count()
        return fate

    folder.remove = removed
    config = Config(database=url, uploads=Path(uploads))
    async with open_database(url).session() as session:
        await step(name, session, config)


def serve() -> None:
    """Each line is a process to be: it costs no new interpreter."""
    for line in sys.stdin:
        child = os.fork()
        if not child:
            asyncio.run(main(*line.split()))
            os._exit(0)
        _, status = os.waitpid(child, 0)
        sys.stdout.write(f"{os.waitstatus_to_exitcode(status)}\n")
        sys.stdout.flush()


if __name__ == "__main__":
    serve()
