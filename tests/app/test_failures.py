"""`beat.failures`: what failed, by fault, from Python."""

from datetime import timedelta

import pytest

from conditions import eventually
from onbeat import AsyncTask, Fail, Onbeat
from onbeat.model.errors import Invalid, NotFound
from onbeat.types import FailureInfo

TASK = "shop.charge"


def program() -> tuple[Onbeat, AsyncTask[[int], None]]:
    beat = Onbeat("memory://")

    @beat.task(TASK)
    async def charge(order: int) -> None:
        raise Fail(f"no answer for order {order}", retryable=False)

    return beat, charge


async def failed(beat: Onbeat, attempts: int) -> FailureInfo:
    """The fault, once so many failed attempts are counted."""

    async def counted() -> bool:
        found = await beat.failures.alist()
        return bool(found) and found[0].attempts == attempts

    await eventually(counted, f"{attempts} failures are counted")
    return (await beat.failures.alist())[0]


async def test_failures_are_counted_and_replayed_by_fault() -> None:
    beat, charge = program()
    async with beat:
        for order in range(3):
            await charge.asend(order)
        one = await failed(beat, 3)
        assert (one.title, one.task, one.failed) == ("no answer for order #", TASK, 3)
        answer = await beat.failures.areplay(one.fault, dry_run=True)
        assert (answer.done, answer.dry_run) == (3, True)
        assert (await beat.failures.areplay(one.fault, limit=2)).done == 2
        assert (await failed(beat, 5)).fault == one.fault
        assert len((await beat.failures.ashow(one.fault)).jobs or ()) == 3
        quiet = await beat.failures.asilence(one.fault, timedelta(hours=1), "known")
        assert quiet.note == "known"
        assert (await beat.failures.asilence(one.fault, None)).silenced_until is None


async def test_a_drain_stores_the_last_failures() -> None:
    beat, charge = program()
    async with beat:
        await charge.asend(1)

        async def is_failed() -> bool:
            return bool((await beat.failures.alist()) or (await beat.jobs.alist(state="failed")))

        await eventually(is_failed, "the job has failed")
        store = beat.backend.store
    assert [one.attempts for one in await store.faults()] == [1]


async def test_a_service_is_asked_too(service: str) -> None:
    beat = Onbeat(service)
    assert list(await beat.failures.alist(q="none", order="count", limit=3)) == []
    with pytest.raises(NotFound):
        await beat.failures.ashow("12")
    with pytest.raises(NotFound):
        await beat.failures.asilence("12", "2h")
    with pytest.raises(Invalid, match="fault"):
        await beat.failures.areplay("x")
    await beat.aclose()


def test_the_plain_forms_block() -> None:
    with Onbeat("memory://") as beat:
        assert list(beat.failures.list()) == []
        with pytest.raises(NotFound):
            beat.failures.show("12")
        with pytest.raises(NotFound):
            beat.failures.silence("12", None)
        assert beat.failures.replay("12").matched == 0
