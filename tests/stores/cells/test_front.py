"""A front: lists and counts of all cells, changes by id, schedules, queues and keys."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import cast

import pytest

from onbeat.model.access import AuditFilter
from onbeat.model.errors import Conflict, Invalid, Misconfigured, RequestInFlight, Unavailable
from onbeat.model.event import Event
from onbeat.model.ids import JobId, ScheduleId
from onbeat.model.job import Job, JobState
from onbeat.model.page import JobFilter, ScheduleFilter
from onbeat.model.queue import Limits
from onbeat.ports.store import Store
from onbeat.rules.cells import SCHEDULE, slot_of_key, stamped
from onbeat.stores.cells import CellStore, fleet
from onbeat.stores.cells.fleet import LOOK_SECONDS
from onbeat.stores.memory import MemoryStore
from onbeat.testing.build import DAY, NOW, a_job, a_plan, a_schedule, an_id, an_occurrence
from onbeat.testing.store_contract.access import a_key, a_record
from onbeat.testing.store_contract.dead_letters import a_dead_letter
from onbeat.testing.store_contract.events import an_event
from onbeat.testing.store_contract.idempotency import a_keyed_request
from onbeat.testing.store_contract.steps import a_request
from stores.cells.front import a_front, a_key_in, an_id_in, stores_of
from stores.cells.links import Link

SLOTS_OF_FOUR = (1, 300, 600, 900)


async def spread(front: CellStore, count: int) -> list[Job]:
    """So many jobs, each in the cell after that of the one before; the newest first."""
    ids = [an_id_in(SLOTS_OF_FOUR[at % 4]) for at in range(count)]
    jobs = [a_job(id=id, labels={"at": str(at)}) for at, id in enumerate(ids)]
    for job in jobs:
        await front.enqueue([job])
    return sorted(jobs, key=lambda job: job.id, reverse=True)


def linked(cells: int = 2) -> tuple[CellStore, list[Link]]:
    links = [Link(MemoryStore()) for _ in range(cells)]
    return a_front(stores=cast("list[Store]", links)), links


@pytest.mark.parametrize("count", [0, 1, 4, 5, 20, 40])
@pytest.mark.parametrize("limit", [1, 3, 10])
@pytest.mark.parametrize("filter", [JobFilter(), JobFilter(queue="default")])
async def test_pages_have_each_job_once_and_in_order(
    filter: JobFilter, limit: int, count: int
) -> None:
    front = a_front(4)
    jobs = await spread(front, count)
    found: list[JobId] = []
    before: JobId | None = None
    for _ in range(count + 2):
        page = await front.jobs(
            JobFilter(queue=filter.queue, limit=limit, before=before, look=2 * limit)
        )
        assert len(page.items) <= limit
        found += [job.id for job in page.items]
        if page.cursor is None:
            break
        before = JobId(page.cursor)
    assert found == [job.id for job in jobs]


async def test_a_search_goes_on_where_the_first_cell_stopped() -> None:
    front = a_front(2)
    rare = a_job(id=an_id_in(1), queue="rare")
    await front.enqueue([rare])
    for _ in range(6):
        await front.enqueue([a_job(id=an_id_in(1))])
    older = a_job(id=an_id_in(1023), queue="rare")
    await front.enqueue([older])
    first = await front.jobs(JobFilter(queue="rare", limit=5, look=3))
    assert first.cursor is not None
    assert first.searched
    found = list(first.items)
    while first.cursor is not None:
        first = await front.jobs(
            JobFilter(queue="rare", limit=5, look=3, before=JobId(first.cursor))
        )
        found += first.items
    assert {job.id for job in found} == {rare.id, older.id}
    assert len(found) == 2


@pytest.mark.parametrize("count", [8, 16])
async def test_a_page_asks_each_cell_once(count: int) -> None:
    front, links = linked(2)
    for slot in (1, 1023) * (count // 2):
        await front.enqueue([a_job(id=an_id_in(slot))])
    for link in links:
        link.asked.clear()
    await front.jobs(JobFilter(limit=count))
    assert [link.asked["jobs"] for link in links] == [1, 1]


async def test_counts_are_added() -> None:
    front = a_front(4)
    await spread(front, 10)
    stats = await front.stats(NOW)
    assert stats.jobs["waiting"] == 10
    assert stats.jobs["failed"] == 0
    (queue,) = await front.queues(NOW)
    assert (queue.name, queue.waiting, queue.due) == ("default", 10, 10)
    counted = await front.count_jobs(JobFilter(), 9)
    assert (counted.count, counted.more) == (9, True)
    counted = await front.count_jobs(JobFilter(), 10)
    assert (counted.count, counted.more) == (10, False)


async def test_a_list_without_one_cell_is_an_error_that_names_it() -> None:
    front, links = linked()
    await front.enqueue([a_job(id=an_id_in(1))])
    links[1].is_away = True
    for ask in (front.jobs(JobFilter()), front.stats(NOW), front.schedules(ScheduleFilter())):
        with pytest.raises(Unavailable, match="cell b: no answer"):
            await ask


async def test_a_job_that_a_cell_made_for_itself_is_found_and_changed() -> None:
    front = a_front(2)
    made = a_job(id=an_id_in(3))
    await stores_of(front)[1].enqueue([made])
    assert await front.job(made.id) == made
    assert await front.jobs_by_id([made.id, an_id_in(9)]) == {made.id: made}
    moved = await front.reschedule(made.id, NOW + DAY, NOW)
    assert moved is not None
    assert moved.due_at == NOW + DAY
    cancelled, unknown = await front.cancel([made.id, an_id_in(5)], "by hand", NOW)
    assert unknown is None
    assert cancelled is not None
    assert cancelled.state is JobState.CANCELLED
    assert len(await front.transitions(made.id)) == 2
    (again,) = await front.retry([made.id], NOW, a_keyed_request("again", made))
    assert again is not None
    assert again.state is JobState.WAITING


async def test_changes_of_many_are_answered_in_order() -> None:
    front = a_front(4)
    jobs = await spread(front, 8)
    cancelled = await front.cancel([job.id for job in jobs], "by hand", NOW)
    assert [job and job.id for job in cancelled] == [job.id for job in jobs]
    waiting = await front.retry([job.id for job in jobs], NOW)
    assert {job and job.state for job in waiting} == {JobState.WAITING}


async def add(front: CellStore, key: str | None, slot: int = 0) -> ScheduleId:
    at = slot if key is None else slot_of_key(SCHEDULE, key)
    schedule = a_schedule(id=ScheduleId(stamped(an_id(), at)), key=key)
    await front.add_schedule(schedule, a_plan(schedule, an_occurrence(schedule)))
    return schedule.id


async def test_a_key_of_schedules_is_given_once() -> None:
    front = a_front(4)
    ids = [await add(front, f"key-{number}") for number in range(8)]
    for number, id in enumerate(ids):
        found = await front.schedule_by_key(f"key-{number}")
        assert found is not None
        assert found.id == id
        with pytest.raises(Conflict):
            await add(front, f"key-{number}")
    assert len({front.fleet.of_id(id).place for id in ids}) > 1
    assert {one.id for one in await front.schedules_by_id(ids)} == {*ids}


@pytest.mark.parametrize("limit", [1, 3, 8, 100])
async def test_pages_of_schedules_have_each_once(limit: int) -> None:
    front = a_front(4)
    ids = [await add(front, None, slot) for slot in SLOTS_OF_FOUR * 2]
    found: list[ScheduleId] = []
    for offset in range(0, 9, limit):
        page = await front.schedules(ScheduleFilter(limit=limit, offset=offset))
        assert page.total == 8
        found += [one.id for one in page.items]
    assert found == sorted(ids, reverse=True)


async def test_an_edit_moves_no_key_into_another_cell() -> None:
    front = a_front(2)
    id = await add(front, a_key_in(front, 0, SCHEDULE))
    stored = await front.schedule(id)
    assert stored is not None
    edited = a_schedule(id=id, key=a_key_in(front, 1, SCHEDULE), version=stored.version + 1)
    with pytest.raises(Invalid, match="belongs to cell b, and the schedule is in cell a") as raised:
        await front.update_schedule(edited, None, NOW)
    assert raised.value.field == "key"
    renamed = a_schedule(id=id, key=stored.key, name="other", version=stored.version + 1)
    assert await front.update_schedule(renamed, None, NOW)
    assert await front.delete_schedule(id, NOW)
    assert not await front.delete_schedule(id, NOW)


async def test_a_queue_is_paused_and_limited_in_every_cell() -> None:
    front = a_front(4)
    await front.pause_queue("mail", paused=True)
    await front.limit_queue("mail", Limits(concurrency=2))
    for store in stores_of(front):
        (queue,) = await store.queues(NOW)
        assert (queue.paused, queue.limits.concurrency) == (True, 2)
    (queue,) = await front.queues(NOW)
    assert (queue.paused, queue.limits.concurrency) == (True, 2)
    assert await front.queue_names() == ["mail"]


CHANGES: list[tuple[str, Callable[[CellStore], Awaitable[object]]]] = [
    ("pause_queue", lambda front: front.pause_queue("mail", paused=True)),
    ("pause_queue", lambda front: front.pause_queue("mail", paused=False)),
    ("limit_queue", lambda front: front.limit_queue("mail", Limits(concurrency=2))),
    ("name_queues", lambda front: front.name_queues(["mail"])),
    ("silence_fault", lambda front: front.silence_fault(1, NOW, None)),
    ("write_fault_note", lambda front: front.write_fault_note(1, None)),
    ("end_silence", lambda front: front.end_silence("one")),
    ("remove_key", lambda front: front.remove_key("ops")),
]


@pytest.mark.parametrize(("verb", "change"), CHANGES)
async def test_a_change_of_all_cells_tells_where_it_was_done(
    verb: str, change: Callable[[CellStore], Awaitable[object]]
) -> None:
    front, links = linked(4)
    words = [
        ((1,), "cell b: no answer; done in cells a, c, d, without an answer from cell b"),
        ((0, 2, 3), "cell a: no answer; done in cell b, without an answer from cells a, c, d"),
        (range(4), "cell a: no answer; done in no cell, without an answer from cells a, b, c, d"),
    ]
    for away, expected in words:
        for place in away:
            links[place].broken.add(verb)
        with pytest.raises(Unavailable) as raised:
            await change(front)
        assert str(raised.value) == f"{expected}; repeat it to complete it"
        for link in links:
            link.broken.clear()
    await change(front)


async def test_a_repeat_completes_the_pause_and_the_limits_of_a_queue() -> None:
    front, links = linked()
    for paused in (True, False):
        links[1].broken.add("pause_queue")
        for _ in range(2):
            with pytest.raises(Unavailable, match="cell b"):
                await front.pause_queue("mail", paused=paused)
        links[1].broken.clear()
        await front.pause_queue("mail", paused=paused)
        assert [await is_paused(link.store) for link in links] == [paused] * 2
    links[0].broken.add("limit_queue")
    with pytest.raises(Unavailable, match="cell a"):
        await front.limit_queue("mail", Limits(concurrency=2))
    links[0].broken.clear()
    await front.limit_queue("mail", Limits(concurrency=2))
    for link in links:
        (queue,) = await link.store.queues(NOW)
        assert queue.limits.concurrency == 2


async def is_paused(store: Store) -> bool:
    return any(queue.paused for queue in await store.queues(NOW))


async def test_a_key_that_some_cells_have_is_removed_and_added_again() -> None:
    front, links = linked()
    links[1].broken.add("add_key")
    with pytest.raises(Unavailable, match=r"done in cell a, .* cell b; remove the key once"):
        await front.add_key(a_key("ops"))
    links[1].broken.clear()
    assert await front.remove_key("ops")
    await front.add_key(a_key("ops"))


async def test_an_event_is_in_every_cell_and_once_in_each() -> None:
    front = a_front(4)
    event: Event = an_event(id="one")
    assert await front.publish([event], NOW) == [True]
    assert await front.publish([event, an_event(id="two")], NOW) == [False, True]
    for store in stores_of(front):
        assert len((await store.unrouted_events(9)).events) == 2


async def test_of_publishers_of_one_event_the_one_that_was_first_in_one_cell_hears_it() -> None:
    front = a_front(2)
    first, second = stores_of(front)
    await first.publish([an_event(id="one")], NOW)
    await second.publish([an_event(id="two")], NOW)
    events = [an_event(id="one"), an_event(id="two")]
    assert await front.publish(events, NOW) == [False, True]
    for store in (first, second):
        assert len((await store.unrouted_events(9)).events) == 2


async def test_an_event_that_some_cells_have_is_published_to_the_others() -> None:
    front, links = linked()
    links[1].broken.add("publish")
    keyed = a_keyed_request("event")
    with pytest.raises(Unavailable, match="cell b"):
        await front.publish([an_event(id="one")], NOW, keyed)
    links[1].broken.clear()
    assert await front.publish([an_event(id="one")], NOW, keyed) == [True]
    for link in links:
        assert len((await link.store.unrouted_events(9)).events) == 1


async def test_keys_of_the_api_are_in_every_cell_and_read_while_one_is_away() -> None:
    front, links = linked()
    key = a_key("ops")
    await front.add_key(key)
    for link in links:
        link.is_away = True
        assert list(await front.keys()) == [key]
        link.is_away = False
    links[1].is_away = True
    with pytest.raises(Unavailable, match="cell b"):
        await front.remove_key("ops")
    links[1].is_away = False
    assert await front.remove_key("ops")
    assert [list(await link.store.keys()) for link in links] == [[], []]


async def test_records_and_letters_of_all_cells_are_listed() -> None:
    front = a_front(4)
    records = [a_record(id=an_id_in(slot)) for slot in SLOTS_OF_FOUR]
    letters = [a_dead_letter(id=an_id_in(slot)) for slot in SLOTS_OF_FOUR]
    for record in records:
        await front.put_audit(record)
    await front.add_dead_letters(letters)
    assert {one.id for one in await front.audit(AuditFilter(limit=9))} == {
        one.id for one in records
    }
    listed = [one.id for one in await front.dead_letters(None, 9)]
    assert listed == sorted((one.id for one in letters), reverse=True)
    keyed = a_keyed_request("delete")
    assert await front.delete_dead_letters([letters[0].id, letters[3].id], keyed) == 2
    assert len(await front.dead_letters(None, 9)) == 2


async def test_what_the_roles_of_a_cell_do_is_refused() -> None:
    front = a_front()
    with pytest.raises(Invalid, match="claim: this is done in one cell at a time"):
        await cast("Store", front).claim(a_request())
    with pytest.raises(AttributeError):
        front.no_such_verb  # noqa: B018


async def test_a_front_with_an_older_map_does_not_start() -> None:
    stores = [MemoryStore(), MemoryStore()]
    await a_front(version=2, stores=stores).open()
    with pytest.raises(Misconfigured, match="has version 1, and cell a was used with version 2"):
        await a_front(version=1, stores=stores).open()
    await a_front(version=2, stores=stores).open()
    await a_front(version=3, stores=stores).open()


async def test_a_front_stops_to_use_a_cell_once_that_knows_a_newer_map() -> None:
    front, links = linked()
    await front.open()
    (stored,) = await front.enqueue([a_job(id=an_id_in(1))])
    await links[0].store.note_map_version(2)
    for cell in front.fleet.cells:
        cell.looked_at -= LOOK_SECONDS
    links[0].asked.clear()
    with pytest.raises(Unavailable, match=r"cell a: it knows version 2 of the map .* has 1"):
        await front.cancel([stored.id], "by hand", NOW)
    with pytest.raises(Unavailable, match="cell a"):
        await front.enqueue([a_job(id=an_id_in(2))])
    assert set(links[0].asked) == {"note_map_version"}
    await front.enqueue([a_job(id=an_id_in(1023))])


async def test_a_front_looks_seldom_for_a_newer_map() -> None:
    front, links = linked()
    await front.open()
    for _ in range(20):
        await front.enqueue([a_job(id=an_id_in(1))])
    assert links[0].asked["note_map_version"] == 1


async def test_a_front_opens_without_a_cell_that_is_away_and_uses_it_later() -> None:
    front, links = linked()
    links[1].is_away = True
    await front.open()
    await front.enqueue([a_job(id=an_id_in(1))])
    await front.ping()
    findings = await front.doctor()
    (away,) = [one for one in findings if one.name.startswith("b: ")]
    assert not away.ok
    assert "no answer" in away.value
    links[1].is_away = False
    await front.enqueue([a_job(id=an_id_in(1023))])
    assert len((await front.jobs(JobFilter())).items) == 2


async def test_a_front_answers_a_ping_while_a_cell_is_silent(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    front, links = linked()
    await front.open()
    silence = asyncio.Event()
    monkeypatch.setattr(links[0], "ping", silence.wait)
    async with asyncio.timeout(60):
        await front.ping()
    links[1].is_away = True
    silence.set()
    await front.ping()


@pytest.fixture
async def silent_first(monkeypatch: pytest.MonkeyPatch) -> tuple[CellStore, Link]:
    """An impatient front whose first cell falls silent, and the link to that one."""
    monkeypatch.setattr(fleet, "PATIENCE_SECONDS", 0.01)
    front, links = linked()
    await front.open()
    links[0].is_silent = True
    links[0].asked.clear()
    return front, links[0]


async def test_a_keyed_answer_waits_for_no_silent_cell(
    silent_first: tuple[CellStore, Link],
) -> None:
    front, link = silent_first
    job = a_job(unique=a_key_in(front, 1))
    keyed = a_keyed_request("one", job)
    await front.enqueue([job], keyed)
    async with asyncio.timeout(60):
        for _ in range(3):
            assert await front.keyed_answer(keyed.digest) is not None
            assert await front.keyed_answer(a_keyed_request("two").digest) is None
    assert link.asked["keyed_answer"] == 1, "it is left out for a while"


async def test_a_cell_that_was_silent_is_asked_again_once_it_answers(
    silent_first: tuple[CellStore, Link],
) -> None:
    front, link = silent_first
    job = a_job(unique=a_key_in(front, 0))
    keyed = a_keyed_request("one", job)
    async with asyncio.timeout(60):
        assert await front.keyed_answer(keyed.digest) is None
    link.is_silent = False
    await front.enqueue([job], keyed)
    assert await front.keyed_answer(keyed.digest) is not None
    with pytest.raises(RequestInFlight):
        await front.enqueue([job], keyed)


async def test_a_cell_that_refuses_an_answer_is_not_away(
    silent_first: tuple[CellStore, Link],
) -> None:
    front, link = silent_first
    job = a_job(unique=a_key_in(front, 0))
    keyed = a_keyed_request("one", job)
    await link.store.enqueue([job], keyed)
    async with asyncio.timeout(60):
        assert await front.keyed_answer(keyed.digest) is None
    link.is_silent = False
    with pytest.raises(RequestInFlight):
        await front.enqueue([job], keyed)
    assert await front.keyed_answer(keyed.digest) is not None


async def test_a_cell_is_asked_again_after_a_while(
    silent_first: tuple[CellStore, Link], monkeypatch: pytest.MonkeyPatch
) -> None:
    front, link = silent_first
    monkeypatch.setattr(fleet, "AWAY_SECONDS", 0.0)
    async with asyncio.timeout(60):
        for _ in range(2):
            assert await front.keyed_answer(a_keyed_request("one").digest) is None
    assert link.asked["keyed_answer"] == 2


async def test_a_cell_that_seemed_away_is_asked_where_the_others_are() -> None:
    front, links = linked()
    await front.open()
    job = a_job(unique=a_key_in(front, 0))
    keyed = a_keyed_request("one", job)
    await front.enqueue([job], keyed)
    links[0].is_away = True
    assert await front.keyed_answer(keyed.digest) is None
    links[0].is_away, links[1].is_away = False, True
    assert await front.keyed_answer(keyed.digest) is not None
    links[0].is_away = True
    with pytest.raises(Unavailable, match="cell"):
        await front.keyed_answer(keyed.digest)


async def test_keys_are_read_from_the_next_cell_where_the_first_is_silent(
    silent_first: tuple[CellStore, Link],
) -> None:
    front, link = silent_first
    await stores_of(front)[1].add_key(a_key("ops"))
    async with asyncio.timeout(60):
        for _ in range(3):
            assert [key.name for key in await front.keys()] == ["ops"]
    assert link.asked["keys"] == 1


async def test_a_record_that_two_cells_have_is_listed_once(
    silent_first: tuple[CellStore, Link],
) -> None:
    front, link = silent_first
    record = a_record(id=an_id_in(1))
    async with asyncio.timeout(60):
        await front.put_audit(record)
    assert link.asked["put_audit"] == 1
    await link.store.put_audit(record)  # after all
    link.is_silent = False
    assert await front.audit(AuditFilter(limit=9)) == [record]


async def test_a_front_without_any_cell_does_not_open() -> None:
    front, links = linked()
    for link in links:
        link.is_away = True
    with pytest.raises(Unavailable, match="cell a"):
        await front.open()
    with pytest.raises(Unavailable, match="cell a"):
        await front.ping()


async def test_hints_of_all_cells_are_heard() -> None:
    front = a_front()
    heard: list[object] = []
    stop = front.listen(heard.append)
    for store in stores_of(front):
        await store.enqueue([a_job()])
    assert len(heard) >= 2
    stop()
    before = len(heard)
    await front.enqueue([a_job()])
    assert len(heard) == before
