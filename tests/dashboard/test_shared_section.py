"""Viewers who ask for the same section at the same moment cost one reading and one drawing."""

import asyncio
import re
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest

from dashboard.office import ADMIN, READ, DashboardOffice, proof
from onbeat.dashboard import shared_section
from onbeat.model.errors import Unavailable
from onbeat.model.outcome import Failed
from onbeat.operations.tables.fleet import QUEUE_PAUSE
from onbeat.operations.tables.jobs import JOB_ENQUEUE

PART = "/?part=now"


@pytest.fixture
def office() -> Iterator[DashboardOffice]:
    """Somebody has the stream."""
    office = DashboardOffice()
    office.harness.context.live.open_here()
    yield office
    office.harness.context.live.close_here()


@pytest.fixture
def reads(office: DashboardOffice, monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """How often the store was asked for its faults, which only this page asks for."""
    store, counts = office.harness.store, Counter[str]()
    faults = store.faults

    async def counted() -> Any:
        counts["faults"] += 1
        await asyncio.sleep(0)  # others come meanwhile
        return await faults()

    monkeypatch.setattr(store, "faults", counted)
    return counts


async def test_five_viewers_share_one_reading(office: DashboardOffice, reads: Counter[str]) -> None:
    viewers = [await office.session(READ) for _ in range(5)]
    answers = await asyncio.gather(*(viewer.get(PART) for viewer in viewers))
    assert [answer.status for answer in answers] == [200] * 5
    assert len({answer.body for answer in answers}) == 1
    assert reads["faults"] == 1


async def test_rights_and_zones_are_the_viewers_own(
    office: DashboardOffice, reads: Counter[str]
) -> None:
    """A button of the one who asked first is not drawn for the others, nor in another zone."""
    for number in range(2):
        await office.harness.ask(JOB_ENQUEUE, {"task": "mail", "queue": f"q{number}"})
        await office.harness.run(Failed("no answer", retryable=False), "mail")
    boss, reader = await office.session(ADMIN), await office.session(READ)
    away = office.client(cookie=f"{reader.headers['cookie']}; onbeat-zone=Asia%2FKolkata")
    first, other, third = [await one.get(PART) for one in (boss, reader, away)]
    assert b'name="proof"' in first.body
    assert b'name="proof"' not in other.body
    assert third.body != other.body
    assert reads["faults"] == 3


async def test_forms_carry_the_proof_of_each_session(
    office: DashboardOffice, reads: Counter[str]
) -> None:
    await office.harness.ask(JOB_ENQUEUE, {"task": "mail"})
    await office.harness.run(Failed("no answer", retryable=False), "mail")
    sessions = [await office.session(ADMIN) for _ in range(2)]
    for session in sessions:
        text = (await session.get(PART)).body.decode()
        proofs = set(re.findall(r'name="proof" value="(\w+)"', text))
        assert proofs == {proof(session)}
        assert shared_section.ANY_PROOF not in text
    assert reads["faults"] == 1


async def test_a_page_is_read_anew(office: DashboardOffice, reads: Counter[str]) -> None:
    viewer = await office.session()
    await viewer.get(PART)
    await viewer.get("/")
    await viewer.get("/")
    assert reads["faults"] == 3


async def test_a_change_is_seen_at_once(office: DashboardOffice, reads: Counter[str]) -> None:
    viewer = await office.session()
    await office.harness.ask(JOB_ENQUEUE, {"task": "mail", "queue": "bulk"})
    assert b"bulk is paused" not in (await viewer.get(PART)).body
    await office.harness.ask(QUEUE_PAUSE, {}, name="bulk")
    assert b"bulk is paused" in (await viewer.get(PART)).body
    assert reads["faults"] == 2


async def test_a_reading_is_shared_for_a_second(
    office: DashboardOffice, reads: Counter[str]
) -> None:
    viewer = await office.session()
    await viewer.get(PART)
    office.harness.move(seconds=shared_section.SHARED_SECONDS)
    await viewer.get(PART)
    assert reads["faults"] == 2


async def test_what_failed_is_read_again(
    office: DashboardOffice, monkeypatch: pytest.MonkeyPatch
) -> None:
    viewer = await office.session()

    async def away() -> Any:
        raise Unavailable("the store is away")

    with monkeypatch.context() as patched:
        patched.setattr(office.harness.store, "faults", away)
        assert (await viewer.get(PART)).status == 503
    assert (await viewer.get(PART)).status == 200


async def test_a_viewer_who_leaves_takes_no_reading_with_them(
    office: DashboardOffice, reads: Counter[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    begun, goes_on = asyncio.Event(), asyncio.Event()
    alerts = office.harness.store.alerts

    async def slow(**named: Any) -> Any:
        begun.set()
        await goes_on.wait()
        return await alerts(**named)

    monkeypatch.setattr(office.harness.store, "alerts", slow)
    viewer = await office.session()
    first = asyncio.create_task(viewer.get(PART))
    await begun.wait()
    second = asyncio.create_task(viewer.get(PART))
    await asyncio.sleep(0)
    first.cancel()
    goes_on.set()
    assert (await second).status == 200
    assert reads["faults"] == 1
