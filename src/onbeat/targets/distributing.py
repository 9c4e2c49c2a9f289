"""Distributors: tasks that yield calls, of which each becomes a job.

The jobs are stored in batches, each in one transaction that the lease of the distributor's own job
fences. Their ids follow from that job's, so that yielding again what was yielded before a crash
adds nothing.
"""

import asyncio
import contextlib
import contextvars
import threading
from collections.abc import AsyncGenerator, Callable, Generator
from datetime import timedelta
from typing import Any, Final

import msgspec

from onbeat.model.errors import LeaseLost, Unavailable
from onbeat.model.ids import JobId
from onbeat.model.job import Job, Progress
from onbeat.model.retry import RetryPolicy
from onbeat.model.signals import Fail
from onbeat.model.target import HandlerTarget
from onbeat.ports.store import Sent
from onbeat.ports.target import Run
from onbeat.rules.deriving import derived_id, instant_of
from onbeat.targets.arguments import encode_value
from onbeat.targets.program import Program
from onbeat.targets.threads import Threads

BATCH_MAX: Final = 1_000  # jobs that share a commit
BATCH_BYTES_MAX: Final = 4 << 20  # of their arguments: what a server takes as one message
LINGER: Final = 0.05  # seconds that a batch waits for more
CURSOR_BYTES_MAX: Final = 65_536  # a cursor says where, and is not the data itself
PAUSES: Final = RetryPolicy(delay=timedelta(milliseconds=100), delay_max=timedelta(seconds=5))


class FanOut(msgspec.Struct, frozen=True):
    """The result of a distributor: how many calls it has yielded, over all of its attempts."""

    sent: int


class Place(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """A cursor as stored: how many calls had been yielded, and what the handler saved."""

    sent: int = 0
    saved: msgspec.Raw = msgspec.Raw(b"null")


class Closed(Exception):
    """Nobody takes the calls any more."""


class Outbox:
    """What was yielded and is not stored yet: at most one batch, beside one that is being stored.

    `put`, `save` and `note` may be called from any thread, the rest from the loop that made it.
    """

    def __init__(self, program: Program, sender: Job) -> None:
        self.program = program
        self.sender = sender
        self.at = instant_of(sender.id) or sender.created_at
        self.begun_at = Place() if sender.cursor is None else read_place(sender.cursor)
        self.sent = self.begun_at.sent
        self.loop = asyncio.get_running_loop()
        self.changed = asyncio.Event()
        self.taken = asyncio.Event()
        self.lock = threading.Lock()
        self.jobs: dict[JobId, Job] = {}
        self.bytes = 0
        self.place: Place | None = None
        self.progress: Progress | None = None
        self.tells_progress = False
        self.is_ended = False
        self.is_closed = False

    # The handler's side

    def put(self, call: object) -> bool:
        """Answers with whether there is room for another.

        Raises `Fail` for what is no call, `Closed` when the attempt is over.
        """
        job = self.job_of(call)
        with self.lock:
            if self.is_closed:
                raise Closed
            was_empty = self.is_empty
            self.jobs.setdefault(job.id, job)
            self.bytes += size_of(job)
            self.sent += 1
            is_full = self.is_full
        if was_empty or is_full:
            self.stir()
        return not is_full

    def job_of(self, call: object) -> Job:
        try:
            job = self.program.job_of(call, self.sender.id, self.program.clock.now())
        except TypeError as error:
            raise Fail(f"call {self.sent + 1} that was yielded: {error}", retryable=False) from None
        # What is counted and what has a name of its own never make the same id.
        key = f"#{self.sent}" if job.unique is None else f"={job.unique}"
        return msgspec.structs.replace(job, id=derived_id(f"{self.sender.id} {key}", self.at))

    def save(self, value: Any) -> None:
        """Raises `Invalid` when the value cannot be stored."""
        packed = encode_value("the saved cursor", value, CURSOR_BYTES_MAX)
        with self.lock:
            was_empty = self.is_empty
            self.place = Place(self.sent, packed)
        if was_empty:
            self.stir()

    def note(self, progress: Progress) -> None:
        with self.lock:
            was_empty = self.is_empty
            self.progress, self.tells_progress = progress, True
        if was_empty:
            self.stir()

    async def room(self) -> None:
        """Returns when there is room for another call, or when none is taken any more."""
        while self.is_full and not self.is_closed:
            self.taken.clear()
            await self.taken.wait()

    def end(self) -> None:
        """The handler has ended; what was yielded is still to be stored."""
        self.is_ended = True
        self.stir()

    # The writer's side

    @property
    def is_empty(self) -> bool:
        return not self.jobs and self.place is None and self.progress is None

    @property
    def is_full(self) -> bool:
        return len(self.jobs) >= BATCH_MAX or self.bytes >= BATCH_BYTES_MAX

    async def ready(self) -> bool:
        """Wait for a batch that is full or has waited long enough; False when no more will come."""
        await self.until(lambda: self.is_ended or not self.is_empty)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(LINGER):
                await self.until(lambda: self.is_ended or self.is_full)
        return not self.is_empty

    async def until(self, holds: Callable[[], bool]) -> None:
        while not holds():
            self.changed.clear()
            if not holds():
                await self.changed.wait()

    def take(self) -> Sent:
        with self.lock:
            jobs, place, progress = tuple(self.jobs.values()), self.place, self.progress
            self.jobs, self.bytes, self.place, self.progress = {}, 0, None, None
            sent = self.sent
        if not self.tells_progress:
            progress = Progress(sent)
        self.taken.set()
        return Sent(
            sender=self.sender.id,
            token=self.sender.token,
            jobs=jobs,
            cursor=None if place is None else msgspec.Raw(msgspec.json.encode(place)),
            progress=progress,
        )

    def close(self) -> None:
        """The attempt is over: a handler in a thread ends at its next yield."""
        with self.lock:
            self.is_closed = True
        self.taken.set()

    def stir(self) -> None:
        # Where the loop is gone, nobody waits any more.
        with contextlib.suppress(RuntimeError):
            self.loop.call_soon_threadsafe(self.changed.set)


def read_place(cursor: msgspec.Raw) -> Place:
    return msgspec.json.decode(cursor, type=Place)


def size_of(job: Job) -> int:
    target = job.target
    if isinstance(target, HandlerTarget):
        return len(target.args) + len(target.kwargs)
    return len(target.body or "")


class Distributor:
    """One attempt: the handler fills the outbox while the batch before is being stored."""

    def __init__(self, program: Program, run: Run, threads: Threads | None) -> None:
        self.program = program
        self.threads = threads
        self.outbox = Outbox(program, run.job)
        self.error: BaseException | None = None

    async def run(self, calls: Callable[[], Any]) -> FanOut:
        """Store what the generator that `calls` makes yields, until it ends.

        What it yielded before it raised an error is stored too. Raises that error then, and
        `LeaseLost` when the lease was lost: nothing more is stored, and the generator is closed.
        """
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(self.store_all())
                await self.read(calls)
                self.outbox.end()
        except BaseExceptionGroup as errors:
            raise errors.exceptions[0] from None
        finally:
            self.outbox.close()
        if self.error is not None:
            raise self.error
        return FanOut(self.outbox.sent)

    async def read(self, calls: Callable[[], Any]) -> None:
        try:
            if self.threads is None:
                await self.read_here(calls())
            else:
                await self.read_in_thread(self.threads, calls)
        except (Exception, SystemExit) as error:  # noqa: BLE001  a handler may raise anything
            self.error = error

    async def read_here(self, generator: AsyncGenerator[Any, None]) -> None:
        task = asyncio.current_task()
        assert task is not None, "a coroutine runs in a task"
        async with contextlib.aclosing(generator):
            async for call in generator:
                if task.cancelling():
                    # The handler has swallowed its stop, which counts all the same.
                    raise asyncio.CancelledError
                if not self.outbox.put(call):
                    await self.outbox.room()

    async def read_in_thread(self, threads: Threads, calls: Callable[[], Any]) -> None:
        """In one thread from beginning to end, which what the handler has open may be bound to."""
        context = contextvars.copy_context()
        await threads.run(lambda: context.run(self.pull, calls))

    def pull(self, calls: Callable[[], Any]) -> None:
        generator: Generator[Any, None, None] = calls()
        loop = self.outbox.loop
        with contextlib.closing(generator):
            for call in generator:
                if not self.outbox.put(call):
                    asyncio.run_coroutine_threadsafe(self.outbox.room(), loop).result()

    async def store_all(self) -> None:
        while await self.outbox.ready():
            if not await self.stored(self.outbox.take()):
                raise LeaseLost

    async def stored(self, batch: Sent) -> bool:
        """Store it, for as long as it takes: the handler is held back meanwhile."""
        failures = 0
        while True:
            try:
                (was_ours,) = await self.program.store.send_from([batch])
            except Unavailable:
                failures += 1
                pause = PAUSES.delay_after(min(failures, 10), self.program.chance.fraction())
                await asyncio.sleep(pause.total_seconds())
            else:
                return was_ours
