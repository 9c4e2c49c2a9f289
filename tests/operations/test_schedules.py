"""The verbs of schedules, against the memory store."""

from datetime import datetime, timedelta
from typing import Any

import msgspec
import pytest

from onbeat.model.errors import Conflict, Invalid, Malformed, NotFound
from onbeat.model.event import Event
from onbeat.model.ids import ScheduleId
from onbeat.model.job import JobState
from onbeat.model.outcome import Succeeded
from onbeat.model.recurrence import RecurrenceSpec
from onbeat.model.retry import RetryPolicy
from onbeat.model.schedule import Schedule, ScheduleStatus
from onbeat.model.target import HandlerTarget
from onbeat.operations.context import TaskDefaults
from onbeat.operations.schedules import add
from onbeat.operations.tables.jobs import JOB_LIST
from onbeat.operations.tables.operation import Operation
from onbeat.operations.tables.schedules import (
    SCHEDULE_BACKFILL,
    SCHEDULE_CREATE,
    SCHEDULE_DELETE,
    SCHEDULE_DIFF,
    SCHEDULE_HISTORY,
    SCHEDULE_LIST,
    SCHEDULE_PAUSE,
    SCHEDULE_PENDING,
    SCHEDULE_PREVIEW,
    SCHEDULE_PUT,
    SCHEDULE_RESUME,
    SCHEDULE_SHOW,
    SCHEDULE_TRIGGER,
    SCHEDULE_UPDATE,
)
from onbeat.recurrence import function
from onbeat.wire.schedule_files import written_schedule
from onbeat.wire.schedules import ScheduleDraft
from operations.harness import NOON, OperationsHarness

EVERY = {"name": "tick", "every": "5m", "target": {"task": "tick"}}


@pytest.fixture
def office() -> OperationsHarness:
    return OperationsHarness()


async def make(office: OperationsHarness, **fields: Any) -> str:
    body = {key: value for key, value in (EVERY | fields).items() if value is not None}
    return (await office.ask(SCHEDULE_CREATE, body))["id"]


async def pending_times(office: OperationsHarness, id: str) -> list[str]:
    events = (await office.ask(SCHEDULE_PENDING, id=id, limit="100"))["events"]
    return sorted(event["run_time"][11:16] for event in events)


async def test_a_new_schedule_has_its_first_jobs(office: OperationsHarness) -> None:
    id = await make(office)
    assert await pending_times(office, id) == ["12:05", "12:10", "12:15"]


async def test_a_paused_one_has_none(office: OperationsHarness) -> None:
    id = await make(office, status="paused")
    assert await pending_times(office, id) == []
    assert (await office.ask(SCHEDULE_SHOW, id=id))["next_at"] is None


async def test_a_new_rule_replaces_the_waiting_jobs(office: OperationsHarness) -> None:
    id = await make(office)
    office.move(minutes=6)
    await office.ask(SCHEDULE_UPDATE, {"every": "1h"}, id=id)
    assert await pending_times(office, id) == ["12:05", "13:06"]
    shown = await office.ask(SCHEDULE_SHOW, id=id)
    assert shown["anchor"] == "2026-03-02T12:06:00Z"


IN_BERLIN = {"timezone": "Europe/Berlin", "dst_gap": "skip", "dst_fold": "both"}


def zone_of(shown: dict[str, Any]) -> dict[str, Any]:
    return {name: shown.get(name) for name in IN_BERLIN}


@pytest.mark.parametrize(
    "rule",
    [
        {"every": "1h"},
        {"every": "every 2 hours"},
        {"every": "P1M"},
        {"every": None, "at": "2026-03-02T18:00:00Z"},
        {"every": None, "cron": "rate(5 minutes)"},
    ],
)
async def test_the_zone_of_any_rule_is_shown_and_that_of_the_next_one(
    office: OperationsHarness, rule: dict[str, Any]
) -> None:
    id = await make(office, **rule, **IN_BERLIN)
    shown = await office.ask(SCHEDULE_SHOW, id=id)
    assert zone_of(shown) == IN_BERLIN
    assert zone_of(written_schedule(shown)) == IN_BERLIN
    await office.ask(SCHEDULE_UPDATE, {"cron": "0 3 * * *"}, id=id)
    shown = await office.ask(SCHEDULE_SHOW, id=id)
    assert (zone_of(shown), shown["next_at"]) == (IN_BERLIN, "2026-03-03T02:00:00Z")


@pytest.mark.parametrize("rule", [{"every": "5m"}, {"every": None, "at": "2026-03-02T12:08:00Z"}])
async def test_a_zone_that_elapsed_time_gets_moves_no_occurrence(
    office: OperationsHarness, rule: dict[str, Any]
) -> None:
    id = await make(office, **rule)
    office.move(minutes=6)
    before, jobs = await office.ask(SCHEDULE_SHOW, id=id), await office.ask(JOB_LIST)
    diff = await office.ask(SCHEDULE_DIFF, IN_BERLIN, id=id)
    assert [one["field"] for one in diff["changes"]] == [*IN_BERLIN]
    assert (diff["plans"], diff["cancels"]) == (0, 0)
    await office.ask(SCHEDULE_UPDATE, IN_BERLIN, id=id)
    after = await office.ask(SCHEDULE_SHOW, id=id)
    assert zone_of(after) == IN_BERLIN
    assert (after["next_at"], after.get("anchor")) == (before["next_at"], before.get("anchor"))
    assert await office.ask(JOB_LIST) == jobs


async def test_a_finished_schedule_stays_so_with_another_zone(office: OperationsHarness) -> None:
    id = await make(office, every=None, at="2026-03-02T12:01:00Z")
    office.move(minutes=1)
    await office.run(Succeeded(None), "tick")
    schedule = await office.store.schedule(ScheduleId(id))
    assert schedule is not None
    finished = msgspec.structs.replace(schedule, status=ScheduleStatus.FINISHED, version=2)
    assert await office.store.update_schedule(finished, None, office.clock.at)
    await office.ask(SCHEDULE_UPDATE, IN_BERLIN, id=id)
    shown = await office.ask(SCHEDULE_SHOW, id=id)
    assert (zone_of(shown), shown["status"]) == (IN_BERLIN, "finished")


async def test_the_anchor_stays_while_the_rule_does(office: OperationsHarness) -> None:
    id = await make(office)
    office.move(minutes=6)
    changes = {"every": "5m", "name": "tock", "starts_at": "2026-03-02T12:12:00Z"}
    await office.ask(SCHEDULE_UPDATE, changes, id=id)
    shown = await office.ask(SCHEDULE_SHOW, id=id)
    assert shown["anchor"] == "2026-03-02T12:00:00Z"
    assert shown["next_at"] == "2026-03-02T12:15:00Z"


async def test_a_new_time_zone_keeps_the_rule(office: OperationsHarness) -> None:
    id = await make(office, every=None, cron="0 9 * * *")
    await office.ask(SCHEDULE_UPDATE, {"timezone": "America/New_York"}, id=id)
    shown = await office.ask(SCHEDULE_SHOW, id=id)
    assert (shown["cron"], shown["timezone"]) == ("0 9 * * *", "America/New_York")
    assert shown["next_at"] == "2026-03-02T14:00:00Z"


async def test_a_zone_in_the_rule_itself_is_not_changed_in_silence(
    office: OperationsHarness,
) -> None:
    rule = "DTSTART;TZID=Europe/Berlin:20260301T090000\nRRULE:FREQ=DAILY"
    id = await make(office, every=None, rrule=rule)
    with pytest.raises(Invalid, match="TZID=America/New_York") as caught:
        await office.ask(SCHEDULE_UPDATE, {"timezone": "America/New_York"}, id=id)
    assert caught.value.field == "timezone"
    await office.ask(SCHEDULE_UPDATE, {"timezone": "Europe/Berlin"}, id=id)
    moved = {"rrule": rule.replace("Europe/Berlin", "America/New_York")}
    await office.ask(SCHEDULE_UPDATE, moved, id=id)
    assert (await office.ask(SCHEDULE_SHOW, id=id))["next_at"] == "2026-03-02T14:00:00Z"


async def test_the_zone_of_a_start_without_one_is_changed(office: OperationsHarness) -> None:
    id = await make(office, every=None, rrule="DTSTART:20260301T090000\nRRULE:FREQ=DAILY")
    for zone, next_at in (
        ("Europe/Berlin", "2026-03-03T08"),
        ("America/New_York", "2026-03-02T14"),
    ):
        await office.ask(SCHEDULE_UPDATE, {"timezone": zone}, id=id)
        shown = await office.ask(SCHEDULE_SHOW, id=id)
        assert (shown["timezone"], shown["next_at"][:13]) == (zone, next_at)


async def test_a_rule_of_another_kind_takes_its_place(office: OperationsHarness) -> None:
    id = await make(office)
    await office.ask(SCHEDULE_UPDATE, {"cron": "0 * * * *"}, id=id)
    shown = await office.ask(SCHEDULE_SHOW, id=id)
    assert shown["cron"] == "0 * * * *"
    assert "every" not in shown


async def test_waiting_jobs_follow_what_is_no_matter_of_the_rule(office: OperationsHarness) -> None:
    id = await make(office)
    await office.ask(SCHEDULE_UPDATE, {"queue": "slow", "target": {"task": "tock"}}, id=id)
    jobs = (await office.ask(JOB_LIST, state="waiting"))["jobs"]
    assert {(job["queue"], job["target"]["task"]) for job in jobs} == {("slow", "tock")}
    assert await pending_times(office, id) == ["12:05", "12:10", "12:15"]


async def test_null_takes_a_field_back_to_its_default(office: OperationsHarness) -> None:
    id = await make(office, grace="1h", queue="slow", timeout="5s", labels={"a": "b"}, priority=4)
    nothing = dict.fromkeys(("grace", "queue", "timeout", "labels", "priority", "retry", "overlap"))
    await office.ask(SCHEDULE_UPDATE, nothing, id=id)
    shown = await office.ask(SCHEDULE_SHOW, id=id)
    assert "grace" not in shown
    assert "timeout" not in shown
    assert (shown["queue"], shown["labels"], shown["priority"]) == ("default", {}, 0)


async def test_a_secret_stays_until_it_is_changed(office: OperationsHarness) -> None:
    secret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
    http = {"url": "https://example.com/a", "secret": secret}
    id = await make(office, target={"http": http})
    stored = office.store.schedule
    await office.ask(SCHEDULE_UPDATE, {"target": {"http": {"url": "https://example.com/b"}}}, id=id)
    assert (await stored(ScheduleId(id))).target.secret == secret
    await office.ask(SCHEDULE_UPDATE, {"method": "POST"}, id=id)
    assert (await stored(ScheduleId(id))).target.secret == secret
    shown = msgspec.json.encode(await office.ask(SCHEDULE_SHOW, id=id))
    assert secret.encode() not in shown
    gone = {"target": {"http": {"url": "https://b.example/", "secret": None}}}
    await office.ask(SCHEDULE_UPDATE, gone, id=id)
    assert (await stored(ScheduleId(id))).target.secret is None


@pytest.mark.parametrize(
    ("fields", "field"),
    [
        ({"every": None, "at": "2020-01-01T00:00:00Z"}, "at"),
        ({"ends_at": "2026-03-02T12:01:00Z"}, "every"),
        ({"every": None, "cron": "0 0 30 2 *"}, "cron"),
        (
            {"every": None, "rrule": "DTSTART:20200101T000000Z\nRRULE:FREQ=DAILY;COUNT=3"},
            "rrule",
        ),
        ({"starts_at": "2026-04-01T00:00:00Z", "ends_at": "2026-03-31T00:00:00Z"}, "ends_at"),
    ],
)
async def test_a_schedule_that_would_never_run_is_refused(
    office: OperationsHarness, fields: dict[str, Any], field: str
) -> None:
    with pytest.raises(Invalid) as caught:
        await make(office, **fields)
    assert caught.value.field == field
    id = await make(office)
    with pytest.raises(Invalid):
        await office.ask(SCHEDULE_UPDATE, {k: v for k, v in fields.items() if v}, id=id)
    assert await pending_times(office, id) == ["12:05", "12:10", "12:15"]


async def test_a_pause_takes_back_what_waits_and_a_resume_goes_on_from_now(
    office: OperationsHarness,
) -> None:
    id = await make(office)
    office.move(minutes=2)
    await office.ask(SCHEDULE_PAUSE, id=id)
    assert await pending_times(office, id) == []
    await office.ask(SCHEDULE_PAUSE, id=id)
    office.move(minutes=20)
    await office.ask(SCHEDULE_RESUME, id=id)
    assert await pending_times(office, id) == ["12:25", "12:30", "12:35"]
    between = await office.store.dispositions(ScheduleId(id), NOON, office.clock.at)
    assert [(each.first.minute, each.last.minute, each.reason) for each in between] == [
        (5, 20, "paused")
    ]


async def test_an_edit_while_paused_plans_nothing(office: OperationsHarness) -> None:
    id = await make(office)
    await office.ask(SCHEDULE_PAUSE, id=id)
    office.move(minutes=7)
    await office.ask(SCHEDULE_UPDATE, {"every": "1m", "name": "x"}, id=id)
    assert await pending_times(office, id) == []
    office.move(minutes=3)
    await office.ask(SCHEDULE_UPDATE, {"status": "active"}, id=id)
    assert (await pending_times(office, id))[0] == "12:11"


async def test_what_runs_while_a_schedule_is_paused_runs_on(office: OperationsHarness) -> None:
    id = await make(office)
    office.move(minutes=5)
    (job,) = await office.claim("tick")
    await office.ask(SCHEDULE_PAUSE, id=id)
    assert (await office.store.job(job.id)).state is JobState.RUNNING


async def make_finished(office: OperationsHarness) -> str:
    """A schedule whose last job, of 12:01, still runs."""
    id = await make(office, every=None, at="2026-03-02T12:01:00Z")
    schedule = await office.store.schedule(ScheduleId(id))
    finished = msgspec.structs.replace(
        schedule, status=ScheduleStatus.FINISHED, version=schedule.version + 1
    )
    office.move(minutes=1)
    await office.claim("tick")
    office.move(minutes=1)
    assert await office.store.update_schedule(finished, None, office.clock.at)
    return id


async def status_of(office: OperationsHarness, id: str) -> str:
    return (await office.ask(SCHEDULE_SHOW, id=id))["status"]


async def test_a_finished_schedule_that_is_paused_waits_for_a_resume(
    office: OperationsHarness,
) -> None:
    id = await make_finished(office)
    assert await office.ask(SCHEDULE_PAUSE, id=id) == {"message": "Schedule paused."}
    assert await status_of(office, id) == "paused"
    await office.ask(SCHEDULE_UPDATE, {"at": "2026-03-02T12:30:00Z"}, id=id)
    assert await status_of(office, id) == "paused"
    assert await pending_times(office, id) == ["12:01"]
    assert await office.ask(SCHEDULE_RESUME, id=id) == {"message": "Schedule resumed."}
    assert await status_of(office, id) == "active"
    assert await pending_times(office, id) == ["12:01", "12:30"]


async def test_a_resume_without_an_occurrence_left_finishes_and_says_so(
    office: OperationsHarness,
) -> None:
    id = await make_finished(office)
    over = {"message": "Schedule finished: it has no occurrence left."}
    assert await office.ask(SCHEDULE_RESUME, id=id) == over
    await office.ask(SCHEDULE_PAUSE, id=id)
    office.move(minutes=1)
    assert await office.ask(SCHEDULE_RESUME, id=id) == over
    assert await status_of(office, id) == "finished"
    (ran,) = await office.store.dispositions(ScheduleId(id), NOON, office.clock.at)
    assert ran.job_id is not None


async def test_a_put_leaves_the_pause_of_a_finished_schedule_alone(
    office: OperationsHarness,
) -> None:
    id = await make_finished(office)
    await office.ask(SCHEDULE_UPDATE, {"key": "once"}, id=id)
    await office.ask(SCHEDULE_PAUSE, id=id)
    body = {"at": "2026-03-02T12:30:00Z", "target": {"task": "tick"}}
    assert (await office.ask(SCHEDULE_PUT, body, key="once"))["id"] == id
    assert await status_of(office, id) == "paused"
    assert await pending_times(office, id) == ["12:01"]


async def test_a_changed_rule_revives_a_finished_schedule(office: OperationsHarness) -> None:
    id = await make_finished(office)
    await office.ask(SCHEDULE_UPDATE, {"name": "again"}, id=id)
    assert (await office.ask(SCHEDULE_SHOW, id=id))["status"] == "finished"
    await office.ask(SCHEDULE_UPDATE, {"at": "2026-03-02T12:30:00Z"}, id=id)
    shown = await office.ask(SCHEDULE_SHOW, id=id)
    assert (shown["status"], shown["next_at"]) == ("active", "2026-03-02T12:30:00Z")


async def test_a_put_creates_changes_or_leaves(office: OperationsHarness) -> None:
    body = {"every": "5m", "target": {"task": "tick", "args": [1, 2]}}
    first = await office.ask(SCHEDULE_PUT, body, key="ticker")
    assert set(first) == {"id"}
    office.move(minutes=1)
    same = await office.ask(SCHEDULE_PUT, body, key="ticker")
    assert same == first | {"created": False, "changed": False}
    assert (await office.ask(SCHEDULE_SHOW, id=first["id"]))["name"] == "ticker"
    other = await office.ask(SCHEDULE_PUT, body | {"queue": "slow"}, key="ticker")
    assert other == first | {"created": False}
    shown = await office.ask(SCHEDULE_SHOW, id=first["id"])
    assert (shown["queue"], shown["anchor"]) == ("slow", "2026-03-02T12:00:00Z")
    await office.ask(SCHEDULE_PUT, body, key="ticker")
    assert (await office.ask(SCHEDULE_SHOW, id=first["id"]))["queue"] == "default"


async def test_a_put_leaves_a_pause_alone(office: OperationsHarness) -> None:
    body = {"every": "5m", "target": {"task": "tick"}}
    id = (await office.ask(SCHEDULE_PUT, body, key="ticker"))["id"]
    await office.ask(SCHEDULE_PAUSE, id=id)
    await office.ask(SCHEDULE_PUT, body | {"every": "6m"}, key="ticker")
    assert (await office.ask(SCHEDULE_SHOW, id=id))["status"] == "paused"
    assert await pending_times(office, id) == []


async def test_a_put_of_what_has_passed_is_left_alone(office: OperationsHarness) -> None:
    body = {"at": "2026-03-02T12:30:00Z", "target": {"task": "tick"}}
    first = await office.ask(SCHEDULE_PUT, body, key="once")
    office.move(hours=1)
    assert (await office.ask(SCHEDULE_PUT, body, key="once"))["id"] == first["id"]


async def test_a_key_is_taken_once(office: OperationsHarness) -> None:
    await make(office, key="k")
    with pytest.raises(Conflict):
        await make(office, key="k")


async def test_an_edit_is_begun_anew_when_another_came_between(office: OperationsHarness) -> None:
    id = await make(office)
    races: list[Any] = []
    update = office.store.update_schedule

    async def raced(
        schedule: Schedule, plan: Any, now: datetime, event: Event | None = None
    ) -> bool:
        if not races:
            races.append(True)
            before = await office.store.schedule(ScheduleId(id))
            between = msgspec.structs.replace(before, priority=9, version=before.version + 1)
            assert await update(between, None, now)
        return await update(schedule, plan, now, event)

    office.store.update_schedule = raced
    await office.ask(SCHEDULE_UPDATE, {"name": "mine"}, id=id)
    shown = await office.ask(SCHEDULE_SHOW, id=id)
    assert (shown["name"], shown["priority"]) == ("mine", 9)


async def test_an_edit_that_always_loses_gives_up(office: OperationsHarness) -> None:
    id = await make(office)

    async def lost(*_: Any, **__: Any) -> Any:
        return False

    office.store.update_schedule = lost
    with pytest.raises(Conflict, match="changed by others"):
        await office.ask(SCHEDULE_UPDATE, {"name": "mine"}, id=id)


async def test_a_trigger_makes_one_job_now(office: OperationsHarness) -> None:
    id = await make(office)
    job = await office.store.job((await office.ask(SCHEDULE_TRIGGER, id=id))["job_id"])
    assert (job.due_at, job.occurrence, job.schedule_id) == (NOON, None, id)


@pytest.mark.parametrize(
    ("operation", "body"),
    [
        (SCHEDULE_TRIGGER, None),
        (SCHEDULE_BACKFILL, {"from": "2026-03-02T11:00:00Z", "to": "2026-03-02T12:00:00Z"}),
    ],
)
async def test_a_schedule_deleted_while_it_is_read_gets_no_job(
    office: OperationsHarness, operation: Operation, body: object
) -> None:
    id = await make(office)
    read = office.store.schedule

    async def read_and_delete(*_: Any, **__: Any) -> Any:
        found = await read(ScheduleId(id))
        await office.store.delete_schedule(ScheduleId(id), NOON)
        return found

    office.store.schedule = read_and_delete
    with pytest.raises(NotFound, match="Schedule not found"):
        await office.ask(operation, body, id=id)
    assert {job["state"] for job in (await office.ask(JOB_LIST))["jobs"]} == {"cancelled"}


async def test_a_backfill_is_idempotent_and_says_how_far_it_came(office: OperationsHarness) -> None:
    id = await make(office)
    span = {"from": "2026-03-02T12:01:00Z", "to": "2026-03-02T13:00:00Z"}
    await office.ask(SCHEDULE_PAUSE, id=id)
    office.move(hours=2)
    await office.ask(SCHEDULE_RESUME, id=id)
    part = await office.ask(SCHEDULE_BACKFILL, span | {"limit": 4}, id=id)
    assert part == {"jobs": 4, "through": "2026-03-02T12:20:00Z"}
    assert await office.ask(SCHEDULE_BACKFILL, span, id=id) == {"jobs": 8}
    assert await office.ask(SCHEDULE_BACKFILL, span, id=id) == {"jobs": 0}


@pytest.mark.parametrize(
    ("span", "kind", "field"),
    [
        ({"from": "2026-03-02T12:00:00Z", "to": "2026-03-02T11:00:00Z"}, Invalid, "to"),
        ({"from": "2026-03-02T12:00:00Z"}, Invalid, "to"),
        ({"from": "x", "to": "2026-03-02T11:00:00Z"}, Invalid, "from"),
        ({"from": 1, "to": "2026-03-02T11:00:00Z"}, Malformed, "from"),
        (
            {"from": "2026-03-02T12:00:00Z", "to": "2026-03-02T13:00:00Z", "limit": 0},
            Invalid,
            "limit",
        ),
    ],
)
async def test_a_bad_backfill_names_its_field(
    office: OperationsHarness, span: dict[str, Any], kind: type[Any], field: str
) -> None:
    id = await make(office)
    with pytest.raises(kind) as caught:
        await office.ask(SCHEDULE_BACKFILL, span, id=id)
    assert caught.value.field == field


async def test_a_schedule_stored_with_a_zone_in_doubt_stays_readable(
    office: OperationsHarness,
) -> None:
    id = await make(office, every=None, cron="0 9 * * *", timezone="Europe/Berlin")
    stored = await office.store.schedule(ScheduleId(id))
    rule = msgspec.structs.replace(stored.recurrence, tz="Factory")
    await office.store.update_schedule(
        msgspec.structs.replace(stored, recurrence=rule, version=2), None, NOON
    )
    await office.ask(SCHEDULE_UPDATE, {"name": "renamed"}, id=id)
    shown = await office.ask(SCHEDULE_SHOW, id=id)
    assert (shown["name"], shown["timezone"]) == ("renamed", "Factory")
    assert shown["next_at"] == "2026-03-03T09:00:00Z"
    doubt = "'Factory' is no place; use an IANA name such as Europe/Berlin"
    assert doubt in (await office.ask(SCHEDULE_PREVIEW, id=id))["notes"]
    with pytest.raises(Invalid, match=doubt) as caught:
        await office.ask(SCHEDULE_UPDATE, {"cron": "0 10 * * *"}, id=id)
    assert caught.value.field == "timezone"
    await office.ask(SCHEDULE_UPDATE, {"timezone": "Europe/Berlin"}, id=id)
    assert (await office.ask(SCHEDULE_PREVIEW, id=id))["notes"] == []


async def test_a_list_is_filtered_and_counted(office: OperationsHarness) -> None:
    for name in ("alpha", "beta", "alphabet"):
        await make(office, name=name)
        office.move(seconds=1)
    result = await office.ask(SCHEDULE_LIST, q="ALPHA", limit="1")
    assert (result["total"], [each["name"] for each in result["schedules"]]) == (2, ["alphabet"])
    second = await office.ask(SCHEDULE_LIST, q="alpha", limit="1", page="2")
    assert [each["name"] for each in second["schedules"]] == ["alpha"]
    assert (await office.ask(SCHEDULE_LIST, status="paused"))["schedules"] == []
    assert (await office.ask(SCHEDULE_LIST, q="100%"))["total"] == 0


async def test_what_is_not_there_cannot_be_asked_for(office: OperationsHarness) -> None:
    absent = "01900000-0000-7000-8000-00000000ffff"
    for operation in (SCHEDULE_SHOW, SCHEDULE_PAUSE, SCHEDULE_RESUME, SCHEDULE_DELETE):
        with pytest.raises(NotFound, match="Schedule not found"):
            await office.ask(operation, id=absent)


@pytest.mark.parametrize(
    ("http", "field"),
    [
        ({"url": "foo"}, "target.http.url"),
        ({"url": "https://user:x@a.example/"}, "target.http.url"),
        ({"url": "https://a.example/", "method": "BREW"}, "target.http.method"),
        ({"url": "https://a.example/", "headers": {"Host": "b"}}, "target.http.headers.Host"),
        ({"url": "https://a.example/", "headers": {"A": "b\r\nc"}}, "target.http.headers.A"),
        ({"url": "https://a.example/", "secret": "short"}, "target.http.secret"),
    ],
)
async def test_a_request_that_cannot_be_sent_is_refused(
    office: OperationsHarness, http: dict[str, Any], field: str
) -> None:
    with pytest.raises(Invalid) as caught:
        await make(office, target={"http": http})
    assert caught.value.field == field


async def test_a_forbidden_address_is_refused_at_creation() -> None:
    office = OperationsHarness(
        refuse_url=lambda url: "a private address" if "10.0.0.1" in url else None
    )
    with pytest.raises(Invalid, match="a private address") as caught:
        await make(office, target=None, callback_url="http://10.0.0.1/")
    assert caught.value.field == "callback_url"
    await make(office, target=None, callback_url="http://example.com/")


async def test_a_task_gives_what_its_schedule_leaves_open() -> None:
    declared = TaskDefaults(
        fields={"queue": "mail", "priority": 3, "timeout": timedelta(seconds=7)},
        retry=RetryPolicy(attempts_max=9),
    )
    office = OperationsHarness(task_defaults=lambda _: declared)
    shown = await office.ask(SCHEDULE_SHOW, id=await make(office))
    assert (shown["queue"], shown["priority"], shown["timeout"]) == ("mail", 3, "7s")
    assert shown["retry"]["attempts_max"] == 9
    shown = await office.ask(SCHEDULE_SHOW, id=await make(office, queue="own", timeout=1))
    assert (shown["queue"], shown["timeout"]) == ("own", "1s")


async def test_a_part_of_a_policy_leaves_the_rest_of_it() -> None:
    declared = TaskDefaults(retry=RetryPolicy(attempts_max=9, jitter=False))
    office = OperationsHarness(task_defaults=lambda _: declared)
    id = await make(office, retry={"delay": "5s"})

    async def policy() -> tuple[int, str, bool]:
        shown = (await office.ask(SCHEDULE_SHOW, id=id))["retry"]
        return shown["attempts_max"], shown["delay"], shown["jitter"]

    assert await policy() == (9, "5s", False)
    await office.ask(SCHEDULE_UPDATE, {"retry": {"attempts_max": 2}}, id=id)
    assert await policy() == (2, "5s", False)
    await office.ask(SCHEDULE_UPDATE, {"retry": None}, id=id)
    assert await policy() == (9, "1s", False)


@pytest.mark.parametrize("key", [".", ".."])
async def test_a_key_that_no_address_can_have_is_refused(
    office: OperationsHarness, key: str
) -> None:
    for ask in (make(office, key=key), office.ask(SCHEDULE_PUT, EVERY, key=key)):
        with pytest.raises(Invalid, match=r"key must not be \. or \.\.") as caught:
            await ask
        assert caught.value.field == "key"
    assert await make(office, key="a/.")


async def test_a_put_under_two_keys_is_refused(office: OperationsHarness) -> None:
    body = {"every": "5m", "target": {"task": "tick"}, "key": "other"}
    with pytest.raises(Invalid) as caught:
        await office.ask(SCHEDULE_PUT, body, key="ticker")
    assert caught.value.field == "key"


async def test_a_key_that_is_taken_cannot_be_had_by_an_update(office: OperationsHarness) -> None:
    await make(office, key="k")
    id = await make(office)
    with pytest.raises(Conflict):
        await office.ask(SCHEDULE_UPDATE, {"key": "k"}, id=id)


async def test_a_rule_of_another_program_is_paused_and_resumed_without_it(
    office: OperationsHarness,
) -> None:
    rule = function(lambda after: after + timedelta(hours=6))
    spec = RecurrenceSpec("function", "odd")
    knowing = msgspec.structs.replace(office.context, compile=lambda *_: rule)
    draft = ScheduleDraft(name="odd", recurrence=spec, target=HandlerTarget("tick"))
    id = (await add(knowing, draft)).id
    assert await pending_times(office, id) == ["18:00"]
    assert (await office.ask(SCHEDULE_SHOW, id=id))["next_at"] is None
    await office.ask(SCHEDULE_PAUSE, id=id)
    assert await pending_times(office, id) == []
    office.move(hours=1)
    await office.ask(SCHEDULE_RESUME, id=id)
    (schedule,) = await office.store.due_schedules(office.clock.at, 10)
    assert (schedule.id, schedule.planned_through) == (id, office.clock.at)
    with pytest.raises(Invalid):
        await office.ask(SCHEDULE_UPDATE, {"timezone": "UTC"}, id=id)


async def test_a_function_that_raises_does_not_spoil_the_list() -> None:
    def broken(after: datetime) -> None:
        raise RuntimeError(after)

    office = OperationsHarness()
    rule = function(lambda after: after + timedelta(hours=6))
    knowing = msgspec.structs.replace(office.context, compile=lambda *_: rule)
    draft = ScheduleDraft(
        name="odd", recurrence=RecurrenceSpec("function", "odd"), target=HandlerTarget("tick")
    )
    await add(knowing, draft)
    office.context = msgspec.structs.replace(office.context, compile=lambda *_: function(broken))
    assert [each["next_at"] for each in (await office.ask(SCHEDULE_LIST))["schedules"]] == [None]


async def test_many_events_cost_no_look_at_their_attempts(office: OperationsHarness) -> None:
    id = await make(office, every="1m")
    for _ in range(3):
        office.move(minutes=1)
        await office.run(Succeeded(), "tick")

    async def refused(*_: Any, **__: Any) -> Any:
        pytest.fail("attempts were looked up")

    office.store.attempts = refused
    events = (await office.ask(SCHEDULE_HISTORY, id=id))["events"]
    assert [event["status"][-1]["status"] for event in events] == ["completed"] * 3


COMMAND = {"command": ["/usr/bin/touch", "/x"], "env": {"API_TOKEN": "secret-1", "COLOUR": "red"}}
HTTP = {"http": {"url": "https://example.com/a", "method": "POST", "body": "B"}}
TASK = {"task": "tick", "args": [1], "kwargs": {"a": 1}}


@pytest.mark.parametrize("target", [COMMAND, HTTP, TASK])
async def test_the_payload_of_a_sensitive_schedule_outlives_an_answer_that_is_sent_back(
    office: OperationsHarness, target: dict[str, Any]
) -> None:
    id = await make(office, target=target)
    plain = (await office.ask(SCHEDULE_SHOW, id=id))["target"]
    await office.ask(SCHEDULE_UPDATE, {"sensitive": True}, id=id)
    shown = await office.ask(SCHEDULE_SHOW, id=id)
    assert shown["target"] != plain
    await office.ask(SCHEDULE_UPDATE, shown | {"name": "another", "queue": "slow"}, id=id)
    await office.ask(SCHEDULE_UPDATE, {"sensitive": False}, id=id)
    after = await office.ask(SCHEDULE_SHOW, id=id)
    assert (after["target"], after["name"], after["queue"]) == (plain, "another", "slow")


@pytest.mark.parametrize(
    ("target", "change"),
    [
        (COMMAND, {"target": {"command": ["/usr/bin/rm", "…"]}}),
        (HTTP, {"method": "PUT"}),
        (HTTP, {"target": {"http": {"url": "https://example.com/b?…"}}}),
        (TASK, {"target": {"task": "other", "args": ["…"]}}),
        (TASK, {"target": {"task": "other", "kwargs": {"a": ["…"]}}}),
    ],
)
async def test_what_is_not_shown_is_not_stored(
    office: OperationsHarness, target: dict[str, Any], change: dict[str, Any]
) -> None:
    id = await make(office, target=target, sensitive=True)
    with pytest.raises(Invalid, match="stands for what a sensitive schedule does not show") as no:
        await office.ask(SCHEDULE_UPDATE, change, id=id)
    assert no.value.field == "target"
    await office.ask(SCHEDULE_UPDATE, {"target": TASK | {"args": [2]}}, id=id)
