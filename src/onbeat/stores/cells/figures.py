"""Counts, history, failures, alerts and dead letters over several cells."""

from collections.abc import Collection, Mapping, Sequence
from datetime import datetime
from operator import attrgetter
from typing import Final

from msgspec.structs import replace

from onbeat.model.alert import Alert, AlertSilence
from onbeat.model.dead_letter import DeadLetter
from onbeat.model.errors import Unavailable
from onbeat.model.event import Event
from onbeat.model.fault import DeadLetterHead, FaultJobs, FaultRecord, OperatorNote
from onbeat.model.idempotency import KeyedRequest
from onbeat.model.ids import DeadLetterId, WorkerId
from onbeat.model.live import StreamBatch
from onbeat.model.pulse import Gauges, Pulse
from onbeat.model.queue import WatchedQueue
from onbeat.model.transition import Stats
from onbeat.model.worker import WorkerRecord
from onbeat.ports.store import Finding, Store
from onbeat.rules.cell_merges import (
    add_fault_jobs,
    add_gauges,
    add_stats,
    earliest,
    merge_faults,
    merge_samples,
    merge_watched,
    newest,
)
from onbeat.stores.cells.fleet import Fleet, OpenCell
from onbeat.stores.cells.parts import RequestPart, run_parts

START_CELL: Final = "start its database server, or check its URL in the map of cells"


class FigureCells:
    """See the parts of `onbeat.ports.store.Store`; what is said here is what differs."""

    fleet: Fleet

    async def stats(
        self,
        now: datetime,
        ended: Mapping[str, int] | None = None,
        sampled: Gauges | None = None,
    ) -> Stats:
        # What was counted before needs no count in the cells either.
        zeros = None if ended is None else dict.fromkeys(ended, 0)
        sample = None if sampled is None else Gauges(at=sampled.at)
        found = await self.fleet.ask_all(lambda store: store.stats(now, zeros, sample))
        return add_stats(found, now, ended, sampled)

    async def workers(self) -> Sequence[WorkerRecord]:
        found = await self.fleet.ask_all(lambda store: store.workers())
        return [worker for part in found for worker in part]

    async def forget_workers(
        self, ids: Collection[WorkerId], beats: Mapping[WorkerId, int] | None = None
    ) -> int:
        """In the cells that answer: a front has no worker, and asks this at its end."""
        return sum(await self.fleet.ask_present(lambda store: store.forget_workers(ids, beats)))

    async def ping(self) -> None:
        """Raises `Unavailable` where all cells are away: one is enough to serve its callers."""
        await self.fleet.ask_soonest(lambda store: store.ping())

    async def doctor(self) -> Sequence[Finding]:
        """The findings of each cell under its name; for one that is away this one."""
        found: list[Finding] = []
        for cell in self.fleet.cells:
            try:
                own = await self.fleet.ask(cell, lambda store: store.doctor())
            except Unavailable as error:
                own = [Finding(name="answers", ok=False, value=str(error), remedy=START_CELL)]
            found += [replace(one, name=f"{cell.name}: {one.name}") for one in own]
        return found

    # History

    async def put_pulses(self, pulses: Sequence[Pulse]) -> int:
        """In the first cell that answers, and in no other: readers add the rows of all."""
        return await self.fleet.ask_first(lambda store: store.put_pulses(pulses), may_repeat=False)

    async def pulses(
        self, resolution: int, first: datetime, last: datetime, limit: int, *, series: bool = True
    ) -> Sequence[Pulse]:
        found = await self.fleet.ask_all(
            lambda store: store.pulses(resolution, first, last, limit, series=series)
        )
        return newest(found, attrgetter("at"), limit)

    async def oldest_history(self, resolution: int) -> datetime | None:
        return earliest(await self.fleet.ask_all(lambda store: store.oldest_history(resolution)))

    async def samples(
        self, resolution: int, first: datetime, last: datetime, limit: int, *, queues: bool = True
    ) -> Sequence[Gauges]:
        found = await self.fleet.ask_all(
            lambda store: store.samples(resolution, first, last, limit, queues=queues)
        )
        return merge_samples(found, resolution, limit)

    async def newest_sample(self, resolution: int) -> Gauges | None:
        """None where a cell has none."""
        found = await self.fleet.ask_all(lambda store: store.newest_sample(resolution))
        known = [sample for sample in found if sample is not None]
        return add_gauges(known) if len(known) == len(found) else None

    # Failures and dead letters

    async def faults(self) -> Sequence[FaultRecord]:
        return merge_faults(await self.fleet.ask_all(lambda store: store.faults()))

    async def fault(self, key: int) -> FaultRecord | None:
        found = await self.fleet.ask_all(lambda store: store.fault(key))
        merged = merge_faults([[one for one in found if one is not None]])
        return merged[0] if merged else None

    async def silence_fault(self, key: int, until: datetime | None, note: str | None) -> bool:
        """In every cell that knows it."""
        return any(await self.fleet.change_all(lambda store: store.silence_fault(key, until, note)))

    async def write_fault_note(self, key: int, note: OperatorNote | None) -> bool:
        """In every cell that knows it."""
        return any(await self.fleet.change_all(lambda store: store.write_fault_note(key, note)))

    async def fault_jobs(self, keys: Collection[int], limit: int) -> Mapping[int, FaultJobs]:
        found = await self.fleet.ask_all(lambda store: store.fault_jobs(keys, limit))
        return add_fault_jobs(found, limit)

    async def add_dead_letters(self, dead_letters: Sequence[DeadLetter]) -> None:
        shares: dict[int, list[DeadLetter]] = {}
        for letter in dead_letters:
            shares.setdefault(self.fleet.of_id(letter.id).place, []).append(letter)
        for place, own in shares.items():
            await self.add_letters(self.fleet.cells[place], own)

    async def add_letters(self, cell: OpenCell, letters: Sequence[DeadLetter]) -> None:
        await self.fleet.ask(cell, lambda store: store.add_dead_letters(letters))

    async def dead_letters(
        self, before: DeadLetterId | None, limit: int, source: str | None = None
    ) -> Sequence[DeadLetter]:
        found = await self.fleet.ask_all(lambda store: store.dead_letters(before, limit, source))
        return newest(found, attrgetter("id"), limit)

    async def dead_letters_by_id(self, ids: Collection[DeadLetterId]) -> Sequence[DeadLetter]:
        found = await self.fleet.ask_all(lambda store: store.dead_letters_by_id(ids))
        return [letter for part in found for letter in part]

    async def dead_letter_heads(
        self, before: DeadLetterId | None, limit: int
    ) -> Sequence[DeadLetterHead]:
        found = await self.fleet.ask_all(lambda store: store.dead_letter_heads(before, limit))
        return newest(found, attrgetter("id"), limit)

    async def delete_dead_letters(
        self, ids: Collection[DeadLetterId], keyed: KeyedRequest | None = None
    ) -> int:
        """In each cell by itself."""

        async def run(store: Store, keyed: KeyedRequest | None) -> int:
            return await store.delete_dead_letters(ids, keyed)

        parts = [RequestPart(cell, run) for cell in self.fleet.cells]
        return sum(await run_parts(self.fleet, parts, keyed, sum, int))

    # Alerts: each cell has its own

    async def alerts(self, *, is_open: bool, limit: int) -> Sequence[Alert]:
        found = await self.fleet.ask_all(lambda store: store.alerts(is_open=is_open, limit=limit))
        return newest(found, attrgetter("since"), limit)

    async def silences(self, now: datetime) -> Sequence[AlertSilence]:
        found = await self.fleet.ask_all(lambda store: store.silences(now))
        known = {silence.id: silence for part in found for silence in part}
        return sorted(known.values(), key=attrgetter("until", "id"))

    async def add_silence(self, silence: AlertSilence) -> None:
        """In every cell."""
        await self.fleet.change_all(lambda store: store.add_silence(silence))

    async def end_silence(self, id: str) -> bool:
        return any(await self.fleet.change_all(lambda store: store.end_silence(id)))

    async def watched_queues(self, now: datetime) -> Sequence[WatchedQueue]:
        return merge_watched(await self.fleet.ask_all(lambda store: store.watched_queues(now)))

    # Events and what happens live

    async def publish(
        self, events: Sequence[Event], now: datetime, keyed: KeyedRequest | None = None
    ) -> Sequence[bool]:
        """In every cell, since schedules and waits of each may be for them.

        A schedule is in one cell, where each event counts once, however often it is published.
        The cell of slot 0 says whether an event is new, so that one of several publishers hears it.
        """

        async def run(store: Store, keyed: KeyedRequest | None) -> Sequence[bool]:
            return await store.publish(events, now, keyed)

        parts: list[RequestPart[Sequence[bool]]] = [
            RequestPart(cell, run) for cell in self.fleet.cells
        ]

        def is_new(results: Sequence[Sequence[bool]]) -> list[bool]:
            return list(results[self.fleet.of_slot(0).place])

        return is_new(await run_parts(self.fleet, parts, keyed, is_new, list[bool]))

    async def wanted_types(self) -> frozenset[str]:
        found = await self.fleet.ask_all(lambda store: store.wanted_types())
        return frozenset[str]().union(*found)

    async def watch_stream(self, process: str, until: datetime) -> None:
        """In the cells that answer, as all that concerns the stream: it only hints."""
        await self.fleet.ask_present(lambda store: store.watch_stream(process, until))

    async def stream_watchers(self, now: datetime) -> Sequence[str]:
        found = await self.fleet.ask_present(lambda store: store.stream_watchers(now))
        return sorted({name for part in found for name in part})

    async def add_stream_batch(self, batch: StreamBatch) -> None:
        """In the first cell that answers, and in no other: readers look into all."""
        await self.fleet.ask_first(lambda store: store.add_stream_batch(batch), may_repeat=False)

    async def stream_batches(
        self, since: datetime, besides: str, limit: int
    ) -> Sequence[StreamBatch]:
        found = await self.fleet.ask_present(
            lambda store: store.stream_batches(since, besides, limit)
        )
        batches = (batch for part in found for batch in part)
        return sorted(batches, key=attrgetter("at", "source", "seq"))[:limit]
