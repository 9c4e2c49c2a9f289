"""Which cell gets which job of a request, and under which id."""

from typing import cast

import pytest

from onbeat.model.errors import Invalid, Unavailable
from onbeat.model.ids import JobId, ScheduleId
from onbeat.model.job import Edge, JobState
from onbeat.model.queue import Limits
from onbeat.ports.store import Store
from onbeat.rules.cells import GROUP, UNIQUE, slot_of_id, slot_of_key
from onbeat.stores.cells import CellStore
from onbeat.stores.memory import MemoryStore
from onbeat.testing.build import NOW, a_job, a_schedule, an_id
from onbeat.testing.store_contract.idempotency import a_keyed_request
from onbeat.testing.store_contract.steps import claim_jobs
from stores.cells.front import a_front, a_group_in, a_key_in, an_id_in, held_by, stores_of
from stores.cells.links import Link


async def test_a_job_with_a_unique_key_is_stored_once_from_anywhere() -> None:
    front = a_front(4)
    jobs = [a_job(unique=a_key_in(front, place)) for place in range(4)]
    stored = await front.enqueue(jobs)
    assert [slot_of_id(one.id) for one in stored] == [
        slot_of_key(UNIQUE, job.unique or "") for job in jobs
    ]
    again = await front.enqueue([a_job(unique=job.unique) for job in jobs])
    assert [(one.id, one.created) for one in again] == [(one.id, False) for one in stored]
    for place, store in enumerate(stores_of(front)):
        assert [job.unique for job in await held_by(store)] == [jobs[place].unique]


async def test_jobs_of_a_group_are_in_one_cell() -> None:
    front = a_front(4)
    group = a_group_in(front, 2)
    stored = await front.enqueue([a_job(group=group)])
    stored = [*stored, *await front.enqueue([a_job(id=an_id_in(1023), group=group)])]
    assert {slot_of_id(one.id) for one in stored} == {slot_of_key(GROUP, "default", group)}
    assert len(await held_by(stores_of(front)[2])) == 2


async def limited_groups() -> tuple[CellStore, str]:
    """A front of two cells with a queue each of whose groups may run one job, and a group of `a`."""
    front = a_front(2)
    await front.limit_queue("default", Limits(group_concurrency=1))
    return front, a_group_in(front, 0)


async def running_of(front: CellStore, group: str) -> list[int]:
    """How many jobs of the group each cell runs, once it has claimed all that it may."""
    claimed = [await claim_jobs(store) for store in stores_of(front)]
    return [[job.group for job in part].count(group) for part in claimed]


async def test_the_limits_of_a_group_hold_over_its_jobs_that_name_nothing_else() -> None:
    front, group = await limited_groups()
    for slot in (1, 600, 1023):
        await front.enqueue([a_job(id=an_id_in(slot), group=group)])
    assert await running_of(front, group) == [1, 0]


async def test_each_cell_runs_jobs_of_a_group_whose_unique_keys_are_its_own() -> None:
    front, group = await limited_groups()
    keys = [a_key_in(front, place) for place in range(2)]
    await front.enqueue([a_job(group=group, unique=key) for key in keys])
    assert await running_of(front, group) == [1, 1]


async def test_each_cell_runs_jobs_of_a_group_whose_schedules_are_its_own() -> None:
    front, group = await limited_groups()
    ids = [an_id_in(1), an_id_in(1023)]
    await front.enqueue([a_job(group=group, schedule_id=ScheduleId(id)) for id in ids])
    assert await running_of(front, group) == [1, 1]


async def test_a_flow_runs_jobs_of_a_group_in_its_own_cell() -> None:
    front, group = await limited_groups()
    await front.enqueue([a_job(group=group)])
    flow = JobId(an_id())
    await front.enqueue(
        [a_job(unique=a_key_in(front, 1), flow=flow), a_job(group=group, flow=flow)]
    )
    assert await running_of(front, group) == [1, 1]


async def test_a_cell_runs_jobs_of_a_group_that_it_made_itself() -> None:
    front, group = await limited_groups()
    await front.enqueue([a_job(group=group)])
    await stores_of(front)[1].enqueue([a_job(group=group)])
    assert await running_of(front, group) == [1, 1]


async def test_a_job_of_a_schedule_is_where_the_schedule_is() -> None:
    front = a_front(2)
    schedule = a_schedule(id=an_id_in(700))
    (stored,) = await front.enqueue([a_job(schedule_id=schedule.id, group="any")])
    assert slot_of_id(stored.id) == 700
    assert len(await held_by(stores_of(front)[1])) == 1


async def test_jobs_that_name_nothing_are_one_transaction() -> None:
    front = a_front(2)
    jobs = [a_job(id=an_id_in(slot)) for slot in (600, 3, 900)]
    stored = await front.enqueue(jobs)
    assert [slot_of_id(one.id) for one in stored] == [600, 600, 600]
    assert len(await held_by(stores_of(front)[1])) == 3


async def test_answers_are_in_the_order_of_the_request() -> None:
    front = a_front(2)
    keys = [a_key_in(front, place) for place in (1, 0)]
    jobs = [a_job(unique=keys[at % 2], labels={"at": str(at)}) for at in range(2)]
    jobs += [a_job(id=an_id_in(512), labels={"at": "2"})]
    stored = await front.enqueue(jobs)
    for at, one in enumerate(stored):
        job = await front.job(one.id)
        assert job is not None
        assert job.labels == {"at": str(at)}


async def test_nothing_is_sent_for_no_jobs() -> None:
    assert await a_front().enqueue([]) == []


async def test_a_flow_is_in_one_cell_and_keeps_its_edges() -> None:
    front = a_front(2)
    first = a_job(id=an_id_in(5), unique=a_key_in(front, 1), flow=JobId(an_id()))
    after = a_job(
        id=an_id_in(6), after=(first.id,), edges={first.id: Edge.END}, flow=first.flow, group="g"
    )
    stored = await front.enqueue([first, after])
    one, other = await held_by(stores_of(front)[1])
    assert {one.id, other.id} == {answer.id for answer in stored}
    assert await held_by(stores_of(front)[0]) == []
    last = await front.job(stored[1].id)
    assert last is not None
    assert last.after == (stored[0].id,)
    assert last.edges == {stored[0].id: Edge.END}
    assert last.blocked_by == 1
    assert (
        sum((await front.flow_counts([JobId(first.flow or "")]))[JobId(first.flow or "")].values())
        == 2
    )


async def test_a_job_comes_after_one_that_a_cell_made_for_itself() -> None:
    front = a_front(2)
    made = a_job(id=an_id_in(3))  # its slot is that of the first cell
    await stores_of(front)[1].enqueue([made])
    (stored,) = await front.enqueue([a_job(id=an_id_in(4), after=(made.id,))])
    assert front.fleet.of_id(stored.id).place == 1
    assert len(await held_by(stores_of(front)[1])) == 2


async def test_a_job_cannot_come_after_jobs_of_two_cells() -> None:
    front = a_front(2)
    (here,) = await front.enqueue([a_job(id=an_id_in(1))])
    (there,) = await front.enqueue([a_job(id=an_id_in(1023))])
    with pytest.raises(
        Invalid, match=f"{here.id} in cell a and job {there.id} in cell b"
    ) as raised:
        await front.enqueue([a_job(after=(here.id, there.id))])
    assert raised.value.field == "after"
    assert [len(await held_by(store)) for store in stores_of(front)] == [1, 1]


async def test_a_flow_cannot_have_a_unique_key_of_another_cell() -> None:
    front = a_front(2)
    (here,) = await front.enqueue([a_job(id=an_id_in(1))])
    with pytest.raises(Invalid, match=f"job {here.id} in cell a and unique key 'key-.*' in cell b"):
        await front.enqueue([a_job(after=(here.id,), unique=a_key_in(front, 1))])


async def test_a_job_comes_after_none_that_does_not_exist() -> None:
    with pytest.raises(Invalid):
        await a_front().enqueue([a_job(after=(JobId(an_id()),))])


async def test_a_cell_that_is_away_is_named_and_the_others_go_on() -> None:
    links = [Link(MemoryStore()), Link(MemoryStore())]
    front = a_front(stores=as_stores(links))
    await front.open()
    links[1].is_away = True
    with pytest.raises(Unavailable, match="cell b: no answer"):
        await front.enqueue([a_job(unique=a_key_in(front, 1))])
    (stored,) = await front.enqueue([a_job(unique=a_key_in(front, 0))])
    job = await front.job(stored.id)
    assert job is not None
    (cancelled,) = await front.cancel([job.id], "by hand", NOW)
    assert cancelled is not None
    assert cancelled.state is JobState.CANCELLED
    for unknown in (an_id_in(1), an_id_in(1023)):
        with pytest.raises(Unavailable, match="cell b"):
            await front.job(unknown)


async def test_a_request_that_broke_off_between_two_cells_is_ended_by_its_repeat() -> None:
    links = [Link(MemoryStore()), Link(MemoryStore())]
    front = a_front(stores=as_stores(links))
    groups = [a_group_in(front, 0), a_group_in(front, 1)]
    links[1].broken.add("enqueue")

    async def send() -> list[JobId]:
        jobs = [a_job(group=group) for group in groups]
        return [one.id for one in await front.enqueue(jobs, a_keyed_request("one", *jobs))]

    with pytest.raises(Unavailable, match="cell b"):
        await send()
    first = await held_by(links[0].store)
    assert len(first) == 1
    assert await front.keyed_answer(a_keyed_request("one").digest) is None
    links[1].broken.clear()
    ids = await send()
    assert await held_by(links[0].store) == first
    assert ids == [first[0].id, (await held_by(links[1].store))[0].id]
    assert await front.keyed_answer(a_keyed_request("one").digest) is not None


async def test_the_repeat_of_a_part_must_have_the_same_body() -> None:
    links = [Link(MemoryStore()), Link(MemoryStore())]
    front = a_front(stores=as_stores(links))
    jobs = [a_job(group=a_group_in(front, place)) for place in range(2)]
    links[1].broken.add("enqueue")
    with pytest.raises(Unavailable):
        await front.enqueue(jobs, a_keyed_request("one", *jobs))
    links[1].broken.clear()
    with pytest.raises(Invalid, match="with another body"):
        await front.enqueue(jobs, a_keyed_request("one", *jobs, fingerprint=b"another body!!!!"))
    assert await held_by(links[1].store) == []


async def test_a_keyed_request_of_jobs_that_name_nothing_goes_to_one_cell_each_time() -> None:
    front = a_front(4)
    places: set[int] = set()
    for slot in (1, 300, 600, 900):
        jobs = [a_job(id=an_id_in(slot))]
        keyed = a_keyed_request("same", *jobs)
        if await front.keyed_answer(keyed.digest) is None:
            (stored,) = await front.enqueue(jobs, keyed)
            places.add(front.fleet.of_id(stored.id).place)
        else:
            assert sum([len(await held_by(store)) for store in stores_of(front)]) == 1
    assert len(places) == 1


def as_stores(links: list[Link]) -> list[Store]:
    return cast("list[Store]", links)  # they pass every call on
