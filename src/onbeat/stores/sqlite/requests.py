"""Requests from coroutines to a store's threads, and the thread of those that only read.

The connection of that thread neither waits for writes nor delays them. A caller reads its own
finished writes, since they are answered after the commit.
"""

import asyncio
import contextlib
import threading
from collections.abc import Awaitable, Callable, Iterable, Mapping
from enum import Enum, auto
from queue import Empty, SimpleQueue
from typing import Any, Concatenate, Final, ParamSpec, TypeVar

import apsw
import msgspec

from onbeat.model.errors import Unavailable
from onbeat.stores.sqlite.connection import LockWait
from onbeat.stores.sqlite.errors import (
    BUSY_AGAIN_SECONDS,
    BUSY_SECONDS,
    REOPEN,
    WHOLE,
    refusal,
    unavailable,
)
from onbeat.stores.sqlite.transaction import Transaction, finish

P = ParamSpec("P")
Answered = TypeVar("Answered")
NO_OPTIONS: Final[Mapping[str, Any]] = {}


class WriteRequest(msgspec.Struct, frozen=True, eq=False):
    """A call of `verb` with `args` and `options`, for the caller that awaits `future` in `loop`.

    With `merges`, the verb is a plain function, and its only argument a sequence of rows. The rows
    of all requests for the same verb are joined into one sequence, and so are the answers.
    """

    verb: Callable[..., Any]
    args: tuple[Any, ...]
    options: Mapping[str, Any]
    merges: bool
    loop: asyncio.AbstractEventLoop
    future: asyncio.Future[Any]

    def run(self, transaction: Transaction) -> Any:
        answer = self.verb(transaction, *self.args, **self.options)
        return answer if self.merges else finish(answer)


Answer = tuple[WriteRequest, Any]
"""A request and its result, or the exception that it raised."""


class Signal(Enum):
    WAKE = auto()
    STOP = auto()


class RequestQueue:
    """A queue of requests to one thread; every request is answered, also after the end."""

    def __init__(self) -> None:
        self._queue: SimpleQueue[WriteRequest | Signal] = SimpleQueue()
        self._ended = True

    def begin(self) -> None:
        self._ended = False

    async def submit(
        self,
        verb: Callable[..., Any],
        args: tuple[Any, ...],
        options: Mapping[str, Any] = NO_OPTIONS,
        *,
        merges: bool = False,
    ) -> Any:
        loop = asyncio.get_running_loop()
        request = WriteRequest(verb, args, options, merges, loop, loop.create_future())
        self._queue.put(request)
        if self._ended:
            self.refuse_rest()
        return await request.future

    def stop(self) -> None:
        """Stop the thread; earlier requests are still answered."""
        self._queue.put(Signal.STOP)

    def wake(self) -> None:
        """Wake the thread without a request."""
        self._queue.put(Signal.WAKE)

    def take(self, limit: int, timeout: float | None) -> tuple[list[WriteRequest], bool]:
        """Wait for one request and take all others that are there; True after `stop`.

        For requests that merge, `limit` counts their rows, so that no batch delays others for long.
        """
        requests: list[WriteRequest] = []
        size = 0
        try:
            item = self._queue.get(timeout=timeout)
            while isinstance(item, WriteRequest):
                requests.append(item)
                size += len(item.args[0]) if item.merges else 1
                if size >= limit:
                    return requests, False
                item = self._queue.get_nowait()
        except Empty:
            return requests, False
        return requests, item is Signal.STOP

    def end(self) -> None:
        """Refuse all further requests."""
        self._ended = True
        self.refuse_rest()

    def refuse_rest(self) -> None:
        requests: list[WriteRequest] = []
        with contextlib.suppress(Empty):
            while True:
                item = self._queue.get_nowait()
                if isinstance(item, WriteRequest):
                    requests.append(item)
        answer_all((request, Unavailable("the store is not open")) for request in requests)


def answer_all(answers: Iterable[Answer]) -> None:
    """Deliver the answers, with one wake-up for each loop."""
    by_loop: dict[asyncio.AbstractEventLoop, list[Answer]] = {}
    for answer in answers:
        by_loop.setdefault(answer[0].loop, []).append(answer)
    for loop, its_answers in by_loop.items():
        # A loop that was closed meanwhile has no waiting callers.
        with contextlib.suppress(RuntimeError):
            loop.call_soon_threadsafe(resolve, its_answers)


def resolve(answers: Iterable[Answer]) -> None:
    for request, result in answers:
        if request.future.done():
            continue
        if isinstance(result, Exception):
            request.future.set_exception(result)
        else:
            request.future.set_result(result)


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
