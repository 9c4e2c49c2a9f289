"""The reader thread: its own connection neither waits for writes nor delays them.

A caller reads its own finished writes, since they are answered after the commit.
"""

import contextlib
import threading
from collections.abc import Awaitable, Callable
from typing import Any, Concatenate, ParamSpec, TypeVar

import apsw

from onbeat.stores.sqlite.connection import LockWait
from onbeat.stores.sqlite.errors import (
    BUSY_AGAIN_SECONDS,
    BUSY_SECONDS,
    REOPEN,
    WHOLE,
    refusal,
    unavailable,
)
from onbeat.stores.sqlite.requests import Answer, RequestQueue, WriteRequest, answer_all
from onbeat.stores.sqlite.transaction import Transaction

P = ParamSpec("P")
Answered = TypeVar("Answered")


class Reader:
    """Runs verbs on the reader thread.

    Another process locks out readers while it recovers or deletes the WAL; calls then get an error
    as soon as writers do.
    """

    def __init__(self, path: str, connect: Callable[[str, LockWait], apsw.Connection]) -> None:
        self._path = path
        self._connect = connect
        self.lock_wait = LockWait(BUSY_SECONDS)
        self._requests = RequestQueue()
        self._thread: threading.Thread | None = None
        self._db: apsw.Connection | None = None

    async def run(
        self,
        verb: Callable[Concatenate[Transaction, P], Awaitable[Answered]],
        *args: P.args,
        **options: P.kwargs,
    ) -> Answered:
        """Run a verb in a read transaction: all its statements see one state."""
        answer: Answered = await self._requests.submit(verb, args, options)
        return answer

    def start(self) -> None:
        self._requests.begin()
        self._thread = threading.Thread(target=self._work, name="onbeat-sqlite-reader", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        if self._thread is not None:
            self._requests.stop()
            self._thread.join()
            self._thread = None

    def _work(self) -> None:
        ended = False
        while not ended:
            requests, ended = self._requests.take(1, None)
            answer_all([self._answer(request) for request in requests])
        self._requests.end()
        self._close()

    def _answer(self, request: WriteRequest) -> Answer:
        try:
            answer = self._run_request(request)
            self.lock_wait.seconds = BUSY_SECONDS
            return request, answer  # noqa: TRY300  every other way out is an error
        except WHOLE as error:
            if isinstance(error, REOPEN):
                self._close()
            if isinstance(error, apsw.BusyError):
                self.lock_wait.seconds = BUSY_AGAIN_SECONDS
            return request, unavailable(error, self._path)
        except Exception as error:  # noqa: BLE001  it is that caller's answer
            return request, refusal(error, self._path)

    def _run_request(self, request: WriteRequest) -> Any:
        if self._db is None:
            self._db = self._connect(self._path, self.lock_wait)
        transaction = Transaction(self._db)
        transaction.begin("DEFERRED")
        try:
            return request.run(transaction)
        finally:
            transaction.end()

    def _close(self) -> None:
        db, self._db = self._db, None
        if db is not None:
            with contextlib.suppress(apsw.Error):  # its state may be bad
                db.close(True)
