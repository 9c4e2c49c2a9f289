"""Programs that declare schedules, and later no longer do."""

from collections.abc import AsyncIterator
from typing import Any

import msgspec
import pytest

from onbeat import Onbeat, every
from onbeat.app.stores import open_store
from onbeat.model.errors import Invalid
from onbeat.model.owner import Owner
from onbeat.model.page import JobFilter
from onbeat.operations.declarations import pause_orphan
from onbeat.operations.tables.jobs import JOB_WHY
from onbeat.operations.tables.schedules import SCHEDULE_UPDATE
from onbeat.ports.events import EventFilter
from onbeat.testing.build import a_plan
from onbeat.wire.requests import JobById, UpdateSchedule
from onbeat.wire.schedules import ScheduleBody


@pytest.fixture(params=["memory", "sqlite"])
async def store(request: pytest.FixtureRequest, tmp_path) -> AsyncIterator[Any]:
    url = "memory://" if request.param == "memory" else f"sqlite:///{tmp_path}/jobs.db"
    result = open_store(url)
    await result.open()
    yield result
    await result.close()


class Program:
    """Starts of one program on a store: each declares some keys, paused or not."""

    def __init__(self, store: Any, owner: str | None = "billing", **parts: Any) -> None:
        self.store, self.owner, self.parts = store, owner, parts
        self.beat = self.version()

    def version(self, release: str | None = None) -> Onbeat:
        beat = Onbeat("memory://", store=self.store, owner=self.owner, release=release)
        beat.backend.owner = msgspec.structs.replace(beat.backend.owner, **self.parts)
        return beat

    async def start(self, *keys: str, release: str | None = None, **paused: bool) -> None:
        self.beat = beat = self.version(release)
        beat.backend.is_open = True  # the store stays open between starts
        for key in (*keys, *paused):
            given: Any = {"paused": paused[key]} if key in paused else {}

            @beat.task(f"{key}.run")
            def run() -> None: ...

            beat.schedule(every("1h"), key=key, **given)(run)
        await beat.backend.put_declared()

    async def states(self) -> dict[str, str]:
        """By key the status of each schedule, and why it is paused."""
        shown: dict[str, str] = {}
        for schedule in await self.beat.schedules.alist():
            assert schedule.key is not msgspec.UNSET
            reason = schedule.pause_reason
            shown[schedule.key] = schedule.status
            if reason is not msgspec.UNSET:
                shown[schedule.key] += f", {reason.value}"
        return dict(sorted(shown.items()))


@pytest.fixture
def program(store: Any) -> Program:
    return Program(store)


GONE = "paused, no longer declared"
SO = "paused, declared so"


async def test_a_start_logs_what_it_pauses_and_why_it_changes_nothing(
    program: Program, caplog: pytest.LogCaptureFixture
) -> None:
    await program.start("a", "b", release="1")
    await program.start("a", release="2")
    await program.start("a", "b", release="1")
    words = [record.getMessage() for record in caplog.records]
    assert len([line for line in words if "schedule.orphaned" in line and "key=b" in line]) == 1
    assert len([line for line in words if "program.older_release" in line]) == 1


async def test_a_schedule_whose_code_is_gone_is_paused_until_it_is_back(program: Program) -> None:
    await program.start("daily", "debug")
    before = await program.beat.schedules.aget("debug")
    assert before.next_at is not None
    await program.start("daily")
    assert await program.states() == {"daily": "active", "debug": GONE}
    waiting = await program.store.jobs(JobFilter(limit=100))
    assert {job.target.task for job in waiting.items if not job.is_final} == {"daily.run"}
    await program.start("daily")
    assert await program.states() == {"daily": "active", "debug": GONE}
    await program.start("daily", "debug")
    assert await program.states() == {"daily": "active", "debug": "active"}
    assert (await program.beat.schedules.aget("debug")).id == before.id


async def test_an_orphan_is_announced_once(program: Program) -> None:
    await program.start("daily", "debug")

    @program.beat.task("alert")
    def alert() -> None: ...

    await program.beat.schedules.aput("alerts", None, alert.call(), on="onbeat.schedule.*")
    await program.start("daily")
    await program.start("daily")
    (stored,) = await program.store.events(EventFilter(limit=10))
    assert stored.event.type == "onbeat.schedule.orphaned"
    data = msgspec.json.decode(stored.event.data)
    assert (data["key"], data["owner"]) == ("debug", "billing")
    assert await program.states() == {"alerts": "active", "daily": "active", "debug": GONE}


async def test_programs_of_one_store_leave_the_schedules_of_others(store: Any) -> None:
    billing, shop, nobody = Program(store), Program(store, "shop"), Program(store, None)
    await billing.start("a")
    await shop.start("b")
    await nobody.start("c")
    for program in (billing, shop, nobody):
        await program.start()
    assert await billing.states() == {"a": GONE, "b": GONE, "c": "active"}


async def test_a_schedule_belongs_to_the_program_that_declared_it_last(store: Any) -> None:
    billing, shop = Program(store), Program(store, "shop")
    await billing.start("a")
    await shop.start("a")
    await billing.start()
    assert await billing.states() == {"a": "active"}
    await shop.start()
    assert await billing.states() == {"a": GONE}


async def test_an_owner_that_nobody_named_takes_none_from_a_named_one(store: Any) -> None:
    named, other = Program(store), Program(store, "host:/srv/app.py", is_named=False)
    await named.start("a")
    await other.start("a", "b")
    await other.start()
    assert await named.states() == {"a": "active", "b": GONE}


async def test_a_schedule_that_was_put_before_a_start_is_not_the_programs(program: Program) -> None:
    beat = program.version()
    beat.backend.is_open = True

    @beat.task("shop.report")
    def report() -> None: ...

    await beat.schedules.aput("paris", every("1h"), report.call())
    await beat.backend.put_declared()
    await program.start("daily")
    assert await program.states() == {"daily": "active", "paris": "active"}


async def test_a_schedule_that_was_put_at_run_time_is_not_the_programs(program: Program) -> None:
    await program.start("a")

    @program.beat.task("extra")
    def extra() -> None: ...

    await program.beat.schedules.aput("dynamic", every("1h"), extra.call())
    await program.start("a")
    assert await program.states() == {"a": "active", "dynamic": "active"}


@pytest.mark.parametrize("first", [True, False])
async def test_a_pause_in_the_code_follows_the_code(program: Program, first: bool) -> None:
    for paused in (first, not first, first, not first):
        await program.start(debug=paused)
        assert await program.states() == {"debug": SO if paused else "active"}
    await program.start(debug=True)
    await program.start("debug")
    assert await program.states() == {"debug": "active"}


async def test_a_pause_by_hand_stays(program: Program) -> None:
    await program.start("debug")
    await program.beat.schedules.apause("debug")
    for paused in (False, True, False):
        await program.start(debug=paused)
        assert await program.states() == {"debug": "paused"}
    await program.start()
    await program.start("debug")
    assert await program.states() == {"debug": "paused"}
    await program.beat.schedules.aresume("debug")
    assert await program.states() == {"debug": "active"}


async def test_a_pause_by_hand_replaces_that_of_the_program(program: Program) -> None:
    await program.start(debug=True)
    await program.beat.schedules.apause("debug")
    await program.start(debug=False)
    assert await program.states() == {"debug": "paused"}


async def test_an_orphan_that_is_resumed_by_hand_is_nobodys(program: Program) -> None:
    await program.start("a")
    await program.start()
    await program.beat.schedules.aresume("a")
    await program.start()
    assert await program.states() == {"a": "active"}
    assert (await program.beat.schedules.aget("a")).owner is msgspec.UNSET
    await program.start("a")
    assert (await program.beat.schedules.aget("a")).owner == "billing"


async def test_an_edit_of_other_fields_leaves_owner_and_reason(program: Program) -> None:
    await program.start("a")
    await program.start()
    id = (await program.beat.schedules.aget("a")).id
    request = UpdateSchedule(id, ScheduleBody(name="renamed"))
    await program.beat.backend.call(SCHEDULE_UPDATE, request)
    shown = await program.beat.schedules.aget("a")
    assert (shown.name, shown.owner) == ("renamed", "billing")
    assert await program.states() == {"a": GONE}


async def test_an_answer_that_is_sent_back_is_no_pause_by_hand(program: Program) -> None:
    await program.start("a")
    await program.start()
    shown = await program.beat.schedules.aget("a")
    body = msgspec.json.decode(msgspec.json.encode(shown), type=ScheduleBody)
    request = UpdateSchedule(shown.id, msgspec.structs.replace(body, name="renamed"))
    await program.beat.backend.call(SCHEDULE_UPDATE, request)
    assert await program.states() == {"a": GONE}


async def test_a_schedule_that_was_deleted_meanwhile_does_not_keep_a_program_from_starting(
    program: Program,
) -> None:
    await program.start("a", "b")
    owned = list(await program.store.schedules_of_owner("billing"))
    await program.beat.schedules.adelete("a")
    context = program.beat.backend.context
    for schedule in owned:
        await pause_orphan(context, schedule, program.beat.backend.owner)
    assert await program.states() == {"b": GONE}


async def test_an_unchanged_start_edits_nothing(program: Program) -> None:
    await program.start("a", release="7")
    before = await program.beat.schedules.aget("a")
    await program.start("a", release="7")
    assert await program.beat.schedules.aget("a") == before


async def test_a_finished_schedule_is_no_orphan_and_stays_finished(program: Program) -> None:
    await program.start("a")
    stored = await program.store.schedule_by_key("a")
    plan = a_plan(stored, planned_through=stored.planned_through, plan_at=None, finished=True)
    assert list(await program.store.apply_plans([plan])) == [True]
    for keys in ((), ("a",)):
        await program.start(*keys)
        assert await program.states() == {"a": "finished"}


# Rolling deploys


async def test_old_and_new_replicas_may_start_in_any_order(program: Program) -> None:
    await program.start("a", "old", release="1.9")
    await program.start("a", "new", release="1.10")
    after = {"a": "active", "new": "active", "old": GONE}
    assert await program.states() == after
    for _ in range(2):
        await program.start("a", "old", release="1.9")
        assert await program.states() == after
        await program.start("a", "new", release="1.10")
        assert await program.states() == after


async def test_an_old_replica_changes_no_definition(program: Program) -> None:
    await program.start("a", release="2")
    before = await program.beat.schedules.aget("a")
    await program.start(a=True, release="1")
    assert await program.beat.schedules.aget("a") == before


async def test_a_release_that_declares_nothing_is_remembered(program: Program) -> None:
    await program.start("a", release="1")
    await program.start(release="2")
    await program.start("a", release="1")
    assert await program.states() == {"a": GONE}
    await program.start("a", release="3")
    assert await program.states() == {"a": "active"}


async def test_without_releases_the_last_start_counts(program: Program) -> None:
    await program.start("a", release="2")
    await program.start()
    assert await program.states() == {"a": GONE}
    await program.start("a")
    assert await program.states() == {"a": "active"}


async def test_why_names_the_program(program: Program) -> None:
    await program.start("a")
    await program.start()
    job = await program.beat.schedules.atrigger("a")
    why = await program.beat.backend.call(JOB_WHY, JobById(job))
    assert why.code == "schedule_paused"
    assert "Its schedule is paused: billing no longer declares it." in why.explanation


@pytest.mark.parametrize("field", ["owner", "release"])
@pytest.mark.parametrize("value", ["", " ", "x" * 201, "a\nb", 7])
def test_a_name_that_cannot_be_is_refused(field: str, value: Any) -> None:
    with pytest.raises(Invalid) as refused:
        Onbeat("memory://", **{field: value})
    assert refused.value.field == field


def test_an_owner_is_kept_as_given() -> None:
    beat = Onbeat("memory://", owner="x" * 200, release="1")
    assert beat.backend.owner == Owner("x" * 200, "1")
