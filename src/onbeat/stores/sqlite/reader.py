"""The thread that reads, on a connection of its own: it neither waits for writes nor delays them.

A caller whose write was answered finds it here, since the answer came after the commit.
"""

import contextlib
import threading
from collections.abc import Callable
from typing import Any, TypeVar

import apsw

from onbeat.stores.sqlite.asks import Answer, Ask, Inbox, answer_all
from onbeat.stores.sqlite.faults import REOPEN, WHOLE, refusal, unavailable
from onbeat.stores.sqlite.transaction import Transaction

Argument = TypeVar("Argument")
Answered = TypeVar("Answered")


class Reader:
    def __init__(self, path: str, connect: Callable[[], apsw.Connection]) -> None:
        self._path = path
        self._connect = connect
        self._inbox = Inbox()
        self._thread: threading.Thread | None = None
        self._db: apsw.Connection | None = None

    async def ask(
        self, run: Callable[[Transaction, Argument], Answered], argument: Argument
    ) -> Answered:
        """Run it in a read transaction: all its statements see one state."""
        answer: Answered = await self._inbox.put(run, argument)
        return answer

    def start(self) -> None:
        self._inbox.begin()
        self._thread = threading.Thread(target=self._work, name="onbeat-sqlite-reader", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        if self._thread is not None:
            self._inbox.stop()
            self._thread.join()
            self._thread = None

    def _work(self) -> None:
        ended = False
        while not ended:
            asks, ended = self._inbox.take(1, None)
            answer_all([self._answer(ask) for ask in asks])
        self._inbox.end()
        self._close()

    def _answer(self, ask: Ask) -> Answer:
        try:
            return ask, self._run(ask)
        except WHOLE as error:
            if isinstance(error, REOPEN):
                self._close()
            return ask, unavailable(error, self._path)
        except Exception as error:  # noqa: BLE001  it is that caller's answer
            return ask, refusal(error, self._path)

    def _run(self, ask: Ask) -> Any:
        if self._db is None:
            self._db = self._connect()
        transaction = Transaction(self._db)
        transaction.begin("DEFERRED")
        try:
            return ask.run(transaction, ask.argument)
        finally:
            transaction.end()

    def _close(self) -> None:
        db, self._db = self._db, None
        if db is not None:
            with contextlib.suppress(apsw.Error):  # it may have been in a bad state
                db.close(True)
