"""Copies of events, with what was decided about them."""

from collections.abc import Sequence

from msgspec.structs import replace

from onbeat.model.event import EventVerdict, StoredEvent
from onbeat.model.route import EventKey
from onbeat.ports.events import EventExport, EventFilter, EventKeyExport
from onbeat.ports.store import Hint, Store
from onbeat.testing.build import NOW, SECOND
from onbeat.testing.store_contract.copy.jobs import (
    CopyDirection,
    all_of,
    batches,
    both_ways,
    copy,
    source_and_target,
)
from onbeat.testing.store_contract.events import (
    a_keyed_job,
    a_reaction_job,
    a_routing,
    add_reaction,
    an_event,
    open_job,
    published,
)
from onbeat.testing.store_contract.hints import expect_hint


async def all_events(store: Store) -> list[EventExport]:
    return await all_of(store.export_events, lambda export: export.event.seq)


async def all_keys(store: Store) -> list[EventKeyExport]:
    return await all_of(store.export_event_keys, lambda export: export.job_id)


async def copy_events(source: Store, target: Store) -> int:
    """Copy jobs and events; returns the number of changed events."""
    await copy(source, target)
    for keys in batches(await all_keys(source)):
        await target.import_event_keys(keys)
    return sum([await target.import_events(some) for some in batches(await all_events(source))])


def without_seqs(exports: Sequence[EventExport]) -> list[tuple[StoredEvent, list[object]]]:
    """What two stores have alike: each numbers events itself."""
    return [
        (replace(one.event, seq=0), [replace(row, seq=0) for row in one.carried]) for one in exports
    ]


class CopiedEventContract:
    @both_ways
    async def test_events_are_copied_with_their_jobs_and_keys(
        self, store: Store, way: CopyDirection
    ) -> None:
        target, source = source_and_target(store, way)
        schedule = await add_reaction(source)
        jobs = [await open_job(source, schedule, by) for by in ("o-1", "o-2")]
        await published(source, *(an_event() for _ in range(5)))
        await published(target, an_event(id="here"))
        assert await copy_events(source, target) == 7
        here, *copies = without_seqs(await all_events(target))
        assert here[0].event.id == "here"
        assert copies == without_seqs(await all_events(source))
        assert await all_keys(target) == await all_keys(source)
        for job, by in zip(jobs, ("o-1", "o-2"), strict=True):
            (event,) = await target.events_of_job(job.id)
            assert event.verdicts == (EventVerdict(schedule.id, job.id),)
            assert list(await target.keyed_jobs([EventKey(schedule.id, by)])) == [
                a_keyed_job(job, by)
            ]
        assert len((await target.unrouted_events(9)).events) == 6

    @both_ways
    async def test_a_second_copy_changes_nothing(self, store: Store, way: CopyDirection) -> None:
        target, source = source_and_target(store, way)
        schedule = await add_reaction(source)
        await open_job(source, schedule)
        await published(source)
        assert await copy_events(source, target) == 2
        before = await all_events(target)
        assert await copy_events(source, target) == 0
        assert await all_events(target) == before

    @both_ways
    async def test_a_later_decision_wins(self, store: Store, way: CopyDirection) -> None:
        target, source = source_and_target(store, way)
        schedule = await add_reaction(source)
        events = await published(source, an_event(), an_event())
        await copy_events(source, target)
        job = a_reaction_job(schedule)
        await source.route(a_routing(events, schedule, job))
        assert await copy_events(source, target) == 2
        assert len(await target.events_of_job(job.id)) == 2
        assert (await target.unrouted_events(9)).events == ()
        assert without_seqs(await all_events(target)) == without_seqs(await all_events(source))

    @both_ways
    async def test_a_decision_of_the_target_stays(self, store: Store, way: CopyDirection) -> None:
        target, source = source_and_target(store, way)
        schedule = await add_reaction(source)
        events = await published(source)
        await copy_events(source, target)
        here = (await target.unrouted_events(9)).events
        verdicts = {here[0].seq: (EventVerdict(schedule.id, reason="here"),)}
        at = NOW + 2 * SECOND
        assert await target.route(a_routing(here, schedule, verdicts=verdicts, at=at))
        assert await copy_events(source, target) == 0
        await source.route(a_routing(events, schedule))
        assert await copy_events(source, target) == 0
        (event,) = await target.events(EventFilter(limit=9))
        assert event.verdicts == verdicts[here[0].seq]

    async def test_an_imported_event_is_told(self, store: Store) -> None:
        _, source = source_and_target(store, CopyDirection.OUT_OF_IT)
        await source.publish([an_event()], NOW)
        exports = await all_events(source)
        async with expect_hint(store, Hint.EVENTS):
            await store.import_events(exports)
