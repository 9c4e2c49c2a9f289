"""Tells the store that this worker lives, and learns which leases it still holds."""

import asyncio
import threading
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

from msgspec.structs import replace

from onbeat.engine.keeper import Alarm
from onbeat.engine.running import Running
from onbeat.model.errors import Unavailable
from onbeat.model.ids import JobId
from onbeat.model.job import Progress
from onbeat.model.worker import Worker as WorkerRow
from onbeat.ports.clock import Clock
from onbeat.ports.store import Held, RenewerStore, WorkerStore
from onbeat.ports.telemetry import Telemetry


class Holder(Protocol):
    """Who holds leases: a worker, or a carrier."""

    @property
    def running(self) -> Mapping[JobId, Running]: ...

    def compare(self, known: Sequence[Running], held: Sequence[Held]) -> None:
        """Act on the store's word about the attempts that were `known` before it was asked."""
        ...


class Renewer:
    """One beat renews every lease of the worker, whatever their number."""

    def __init__(
        self,
        store: RenewerStore,
        notes: WorkerStore,
        clock: Clock,
        row: Callable[[], WorkerRow],
        holder: Holder,
    ) -> None:
        self.store = store
        self.notes = notes
        self.clock = clock
        self.row = row
        self.holder = holder
        self.beats = 0

    async def renew_held(self) -> tuple[tuple[Running, ...], tuple[Held, ...]]:
        """Beat once. Returns the attempts known before, and the leases that the store told."""
        known = tuple(run for run in tuple(self.holder.running.values()) if not run.is_settling)
        self.beats += 1
        held = await self.store.beat(replace(self.row(), beat=self.beats, beat_at=self.clock.now()))
        await self.keep_progress(known)
        return known, tuple(held)

    async def keep_progress(self, known: tuple[Running, ...]) -> None:
        taken = [(run, progress) for run in known if (progress := taken_progress(run)) is not None]
        if not taken:
            return
        try:
            await self.notes.note_progress(
                [(run.job.id, run.job.token, progress) for run, progress in taken]
            )
        except Unavailable:
            for run, progress in taken:
                put_back(run, progress)
            raise


def taken_progress(run: Running) -> Progress | None:
    """The progress noted since it was last taken."""
    progress, run.progress = run.progress, None
    return progress


def put_back(run: Running, progress: Progress) -> None:
    """For the next beat, unless there is newer progress by then."""
    if run.progress is None:
        run.progress = progress


class RenewerThread:
    """Beats from a thread with an event loop of its own, which no handler can block.

    What the store tells is applied in the worker's loop, whenever that is free again: then only
    the latest word counts, since what was told before it may be over.
    """

    def __init__(self, renewer: Renewer, period: float, telemetry: Telemetry) -> None:
        self.renewer = renewer
        self.period = period
        self.telemetry = telemetry
        self.stopping = threading.Event()
        self.loop = asyncio.get_running_loop()
        self.thread = threading.Thread(
            target=lambda: asyncio.run(self.beat_forever()), name="onbeat-renewer", daemon=True
        )
        self.alarm: Alarm | None = None
        self.words: deque[tuple[tuple[Running, ...], tuple[Held, ...]]] = deque(maxlen=1)

    def start(self) -> None:
        self.thread.start()

    async def beat_forever(self) -> None:
        self.alarm = Alarm()
        while not self.stopping.is_set():
            await self.beat()
            await self.alarm.wait(self.period)

    async def beat(self) -> None:
        try:
            word = await self.renewer.renew_held()
        except Exception as error:  # noqa: BLE001  without beats every lease would be lost
            self.telemetry.loop_failed("renewer", error)
            return
        self.telemetry.loop_beat("renewer")
        self.words.append(word)
        self.in_workers_loop(self.apply_word)

    def apply_word(self) -> None:
        if self.words:
            self.renewer.holder.compare(*self.words.pop())

    def in_workers_loop(self, act: Callable[[], None]) -> None:
        try:
            self.loop.call_soon_threadsafe(act)
        except RuntimeError:
            # The worker's loop has ended, and with it everything that could be told.
            return

    def beat_soon(self) -> None:
        """From any thread: what the store has to tell is worth hearing now."""
        if self.alarm is not None:
            self.alarm.ring_from_anywhere()

    async def stop(self) -> None:
        self.stopping.set()
        self.beat_soon()
        await asyncio.to_thread(self.thread.join)
