"""Distributors: tasks that yield calls, where each call becomes a job.

The jobs are stored in batches, each in one transaction that is fenced by the lease of the
distributor's own job. Their ids are derived from that job's id, so calls that are yielded again
after a crash add nothing.
"""

import asyncio
import contextlib
import contextvars
import threading
from collections.abc import AsyncGenerator, Awaitable, Callable, Generator
from datetime import timedelta
from typing import Any, Final, TypeVar

import msgspec

from onbeat.model.errors import Invalid, LeaseLost, Unavailable
from onbeat.model.ids import JobId
from onbeat.model.job import Job, Progress
from onbeat.model.limits import YIELDED_CALLS_MAX
from onbeat.model.retry import RetryPolicy
from onbeat.model.signals import Fail
from onbeat.model.target import CommandTarget, HandlerTarget, NotifyTarget
from onbeat.ports.store import SentJobs
from onbeat.ports.target import Run
from onbeat.rules.derived_ids import derived_id, instant_of
from onbeat.rules.event_delivery import inherited_cause
from onbeat.targets.app_context import AppContext
from onbeat.targets.codec import encode_value
from onbeat.targets.interrupts import is_closed_outside, running_task
from onbeat.targets.leased_start import run_held
from onbeat.targets.threads import Threads

Answer = TypeVar("Answer")

BATCH_MAX: Final = 1_000  # jobs that share a commit
BATCH_BYTES_MAX: Final = 4 << 20  # of their arguments: a server accepts this as one message
LINGER: Final = 0.05  # seconds that a batch waits for more
CURSOR_BYTES_MAX: Final = 65_536  # a cursor is a position, and not the data itself
PAUSES: Final = RetryPolicy(delay=timedelta(milliseconds=100), delay_max=timedelta(seconds=5))


class FanOut(msgspec.Struct, frozen=True):
    """The result of a distributor: how many calls it has yielded, over all of its attempts."""

    sent: int


class Checkpoint(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """A stored cursor: how many calls had been yielded, and what the handler saved."""

    sent: int = 0
    saved: msgspec.Raw = msgspec.Raw(b"null")


class FanOutClosed(Exception):
    """The attempt is over, and takes no more calls."""


class YieldedCalls:
    """The last calls that were yielded, which later ones may come after."""

    def __init__(self) -> None:
        self.jobs: dict[int, tuple[object, Job]] = {}
        self.named: dict[str, Job] = {}

    def add(self, call: object, job: Job) -> None:
        """Holds the call, so that no other one gets its address meanwhile."""
        self.jobs.pop(id(call), None)
        self.jobs[id(call)] = call, job
        if job.name is not None:
            self.named[job.name] = job
        if len(self.jobs) > YIELDED_CALLS_MAX:
            _, left = self.jobs.pop(next(iter(self.jobs)))
            if left.name is not None and self.named.get(left.name) is left:
                del self.named[left.name]

    def find(self, call: object) -> Job | None:
        """The job of a call, or of the last one with a name."""
        if isinstance(call, str):
            return self.named.get(call)
        found = self.jobs.get(id(call))
        return None if found is None else found[1]


class Buffer:
    """Yielded calls that are not stored yet: at most one batch, besides the one being stored.

    `add`, `save` and `note` are thread-safe; call the others from the loop that created it.
    """

    def __init__(self, program: AppContext, sender: Job) -> None:
        self.app = program
        self.sender = sender
        self.flow = sender.flow or sender.id
        self.yielded = YieldedCalls()
        self.at = instant_of(sender.id) or sender.created_at
        self.begun_at = Checkpoint() if sender.cursor is None else read_checkpoint(sender.cursor)
        self.sent = self.begun_at.sent
        self.loop = asyncio.get_running_loop()
        self.changed = asyncio.Event()
        self.taken = asyncio.Event()
        self.lock = threading.Lock()
        self.jobs: dict[JobId, Job] = {}
        self.bytes = 0
        self.checkpoint: Checkpoint | None = None
        self.progress: Progress | None = None
        self.tells_progress = False
        self.is_ended = False
        self.is_closed = False

    # The handler's side

    def add(self, call: object) -> bool:
        """Add a call. Returns whether there is room for another.

        Raises `Fail` for any other object, and `FanOutClosed` when the attempt is over.
        """
        job = self.job_of(call)
        with self.lock:
            if self.is_closed:
                raise FanOutClosed
            was_empty = self.is_empty
            self.jobs.setdefault(job.id, job)
            self.bytes += size_of(job)
            self.sent += 1
            is_full = self.is_full
        if was_empty or is_full:
            self.wake()
        return not is_full

    def job_of(self, call: object) -> Job:
        try:
            now = self.app.clock.now()
            job = self.app.job_of(call, self.sender.id, now, self.flow, self.yielded)
        except (TypeError, Invalid) as error:
            raise Fail(f"call {self.sent + 1} that was yielded: {error}", retryable=False) from None
        # The prefix separates numbered calls from calls with a unique key of their own.
        key = f"#{self.sent}" if job.unique is None else f"={job.unique}"
        job = msgspec.structs.replace(
            job,
            id=derived_id(f"{self.sender.id} {key}", self.at),
            cause=inherited_cause(self.sender.cause),
        )
        self.yielded.add(call, job)
        return job

    def save(self, value: Any) -> None:
        """Raises `Invalid` when the value cannot be stored."""
        packed = encode_value("the saved cursor", value, CURSOR_BYTES_MAX)
        with self.lock:
            was_empty = self.is_empty
            self.checkpoint = Checkpoint(self.sent, packed)
        if was_empty:
            self.wake()

    def note(self, progress: Progress) -> None:
        with self.lock:
            was_empty = self.is_empty
            self.progress, self.tells_progress = progress, True
        if was_empty:
            self.wake()

    async def room(self) -> None:
        """Returns when there is room for another call, or when the attempt is over."""
        while self.is_full and not self.is_closed:
            self.taken.clear()
            await self.taken.wait()

    def end(self) -> None:
        """The handler has ended; calls in the buffer are still to be stored."""
        self.is_ended = True
        self.wake()

    # The writer's side

    @property
    def is_empty(self) -> bool:
        return not self.jobs and self.checkpoint is None and self.progress is None

    @property
    def is_full(self) -> bool:
        return len(self.jobs) >= BATCH_MAX or self.bytes >= BATCH_BYTES_MAX

    async def ready(self) -> bool:
        """Wait for a batch that is full or has waited `LINGER`. False when no more will come."""
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

    def take(self) -> SentJobs:
        with self.lock:
            jobs, place, progress = tuple(self.jobs.values()), self.checkpoint, self.progress
            self.jobs, self.bytes, self.checkpoint, self.progress = {}, 0, None, None
            sent = self.sent
        if not self.tells_progress:
            progress = Progress(sent)
        self.taken.set()
        return SentJobs(
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

    def wake(self) -> None:
        # If the loop has ended, nothing waits for this event.
        with contextlib.suppress(RuntimeError):
            self.loop.call_soon_threadsafe(self.changed.set)


def read_checkpoint(cursor: msgspec.Raw) -> Checkpoint:
    return msgspec.json.decode(cursor, type=Checkpoint)


def size_of(job: Job) -> int:
    target = job.target
    if isinstance(target, HandlerTarget):
        return len(target.args) + len(target.kwargs)
    if isinstance(target, NotifyTarget):
        return len(target.text or "") + len(target.html or "") + len(target.data)
    if isinstance(target, CommandTarget):
        return sum(map(len, target.argv)) + len(target.stdin or "")
    return len(target.body or "")


class FanOutRunner:
    """One attempt: the handler fills the buffer while the previous batch is being stored."""

    def __init__(self, program: AppContext, run: Run, threads: Threads | None) -> None:
        self.app = program
        self.threads = threads
        self.attempt = run
        self.buffer = Buffer(program, run.job)
        self.error: BaseException | None = None

    async def run(self, calls: Callable[[], Any]) -> FanOut:
        """Store the calls of the generator that `calls` creates, until it ends.

        Calls that it yielded before an error are stored too; the error is then raised. Raises
        `LeaseLost` when the lease was lost: nothing more is stored, and the generator is closed.
        """
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(self.store_all())
                await self.read(calls)
                self.buffer.end()
        except BaseExceptionGroup as errors:
            raise errors.exceptions[0] from None
        finally:
            self.buffer.close()
        if self.error is not None:
            raise self.error
        return FanOut(self.buffer.sent)

    async def read(self, calls: Callable[[], Any]) -> None:
        task = running_task()
        try:
            if self.threads is None:
                await self.read_here(calls())
            else:
                await self.read_in_thread(self.threads, calls)
        except asyncio.CancelledError:
            raise
        except BaseException as error:
            if is_closed_outside(error, task):
                raise
            self.error = error

    async def read_here(self, generator: AsyncGenerator[Any, None]) -> None:
        task = asyncio.current_task()
        assert task is not None, "a coroutine runs in a task"
        async with contextlib.aclosing(generator):
            async for call in generator:
                if task.cancelling():
                    # The handler has suppressed its cancellation; stop anyway.
                    raise asyncio.CancelledError
                if not self.buffer.add(call):
                    await self.buffer.room()

    async def read_in_thread(self, threads: Threads, calls: Callable[[], Any]) -> None:
        """Uses one thread throughout, as resources of the handler may be bound to a thread."""
        context = contextvars.copy_context()
        await run_held(threads, self.attempt, lambda: context.run(self.pull, calls))

    def pull(self, calls: Callable[[], Any]) -> None:
        generator: Generator[Any, None, None] = calls()
        loop = self.buffer.loop
        with contextlib.closing(generator):
            for call in generator:
                if not self.buffer.add(call):
                    asyncio.run_coroutine_threadsafe(self.buffer.room(), loop).result()

    async def store_all(self) -> None:
        while await self.buffer.ready():
            if not await store_batch(self.app, self.buffer.take()):
                raise LeaseLost


async def store_batch(program: AppContext, batch: SentJobs) -> bool:
    """Store the batch, however long it takes: the handler waits meanwhile."""
    (was_ours,) = await until_available(program, lambda: program.store.enqueue_from([batch]))
    return was_ours


async def until_available(program: AppContext, call: Callable[[], Awaitable[Answer]]) -> Answer:
    """The store's answer to the call, which is repeated while the store is unavailable."""
    failures = 0
    while True:
        try:
            return await call()
        except Unavailable:
            failures += 1
            pause = PAUSES.delay_after(min(failures, 10), program.randomness.fraction())
            await asyncio.sleep(pause.total_seconds())
