"""What an edit and a backfill would do, told before they do it."""

from typing import Any

import pytest

from onbeat.expressions.cel import CelExpressions
from onbeat.model.errors import Conflict, Forbidden, Invalid, NotFound
from onbeat.model.outcome import Failed, Succeeded
from onbeat.model.principal import Principal, Scope
from onbeat.operations.outcomes import READ_AT_ONCE, READ_MAX
from onbeat.operations.tables.administration import (
    AUDIT_LIST,
    KEY_REVOKE,
    SESSION_LIST,
    SETTINGS_SHOW,
)
from onbeat.operations.tables.jobs import JOB_ENQUEUE, JOB_LIST, JOB_RESCHEDULE, JOB_SHOW
from onbeat.operations.tables.schedules import (
    SCHEDULE_BACKFILL,
    SCHEDULE_CREATE,
    SCHEDULE_DIFF,
    SCHEDULE_LIST,
    SCHEDULE_OCCURRENCES,
    SCHEDULE_PAUSE,
    SCHEDULE_PUT,
    SCHEDULE_PUT_DIFF,
    SCHEDULE_RESUME,
    SCHEDULE_SHOW,
    SCHEDULE_UPDATE,
)
from onbeat.wire.settings import SettingAnswer
from operations.harness import OperationsHarness

NIGHTLY = {"name": "nightly", "cron": "30 2 * * *", "target": {"task": "ledger"}}
NOBODY = "01900000-0000-7000-8000-ffffffffffff"


@pytest.fixture
def harness() -> OperationsHarness:
    return OperationsHarness(expressions=CelExpressions())


async def made(harness: OperationsHarness, **fields: Any) -> str:
    return (await harness.ask(SCHEDULE_CREATE, {**NIGHTLY, **fields}))["id"]


async def waiting(harness: OperationsHarness, id: str) -> list[str]:
    jobs = (await harness.ask(JOB_LIST, schedule_id=id, limit="100"))["jobs"]
    return sorted(job["occurrence"] for job in jobs if job["state"] == "waiting")


# schedule.diff


@pytest.mark.parametrize(
    ("changes", "fields"),
    [
        ({"cron": "0 4 * * *"}, ["cron"]),
        ({"every": "7m"}, ["cron", "every"]),
        ({"ends_at": "2026-04-01T00:00:00Z"}, ["ends_at"]),
        ({"status": "paused"}, ["status"]),
        ({"name": "other", "queue": "slow", "labels": {"a": "b"}}, ["name", "queue", "labels"]),
        ({"target": {"task": "other"}}, ["target"]),
        ({}, []),
        ({"cron": "30 2 * * *"}, []),
    ],
)
async def test_a_diff_tells_what_the_update_then_does(
    harness: OperationsHarness, changes: dict[str, Any], fields: list[str]
) -> None:
    id = await made(harness)
    before, jobs = await harness.ask(SCHEDULE_SHOW, id=id), await waiting(harness, id)
    diff = await harness.ask(SCHEDULE_DIFF, changes, id=id)
    assert await harness.ask(SCHEDULE_SHOW, id=id) == before
    assert await waiting(harness, id) == jobs
    assert [one["field"] for one in diff["changes"]] == fields
    assert all(one["before"] == before.get(one["field"]) for one in diff["changes"])
    await harness.ask(SCHEDULE_UPDATE, changes, id=id)
    after = await harness.ask(SCHEDULE_SHOW, id=id)
    assert all(one["after"] == after.get(one["field"]) for one in diff["changes"])
    assert (diff["next_before"], diff["next_after"]) == (before["next_at"], after["next_at"])
    assert len(await waiting(harness, id)) == len(jobs) - diff["cancels"] + diff["plans"]


async def test_a_diff_shows_the_next_times_and_its_notes(harness: OperationsHarness) -> None:
    id = await made(harness)
    diff = await harness.ask(SCHEDULE_DIFF, {"timezone": "Europe/Berlin"}, id=id)
    assert diff["description"] == "At 02:30 every day (Europe/Berlin)"
    assert len(diff["occurrences"]) == 10
    assert diff["occurrences"][0] == diff["next_after"]


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"cron": "x"}, "cron"),
        ({"at": "2020-01-01T00:00:00Z"}, "at"),
        ({"timezone": "Mars/One"}, "timezone"),
        ({"ends_at": "2020-01-01T00:00:00Z", "starts_at": "2021-01-01T00:00:00Z"}, "ends_at"),
    ],
)
async def test_a_diff_refuses_what_the_update_would(
    harness: OperationsHarness, changes: dict[str, Any], field: str
) -> None:
    id = await made(harness)
    for operation in (SCHEDULE_DIFF, SCHEDULE_UPDATE):
        with pytest.raises(Invalid) as caught:
            await harness.ask(operation, changes, id=id)
        assert caught.value.field == field


def with_secret(field: str, secret: str) -> dict[str, Any]:
    asked = {"http": {"url": "https://api.example.com", "headers": {"Authorization": secret}}}
    return {field: asked if field == "target" else {"ask": asked, "if": "answer.status == 200"}}


@pytest.mark.parametrize("field", ["target", "condition"])
async def test_a_secret_that_changes_is_told_and_not_shown(
    harness: OperationsHarness, field: str
) -> None:
    id = await made(harness, **with_secret(field, "old"))
    diff = await harness.ask(SCHEDULE_DIFF, with_secret(field, "new"), id=id)
    (change,) = diff["changes"]
    assert change["field"] == field
    assert change["before"] == change["after"]
    assert "new" not in str(diff)
    assert "old" not in str(diff)


@pytest.mark.parametrize("field", ["target", "condition"])
@pytest.mark.parametrize("secret", ["old", "***"])
async def test_a_secret_that_stays_is_no_change(
    harness: OperationsHarness, field: str, secret: str
) -> None:
    id = await made(harness, **with_secret(field, "old"))
    diff = await harness.ask(SCHEDULE_DIFF, with_secret(field, secret), id=id)
    assert diff["changes"] == []


async def test_a_diff_needs_no_more_than_to_read(harness: OperationsHarness) -> None:
    id = await made(harness)
    reader = Principal(name="look", scopes=frozenset({Scope.READ}))
    harness.context = harness.context.acting_for(reader)
    assert (await harness.ask(SCHEDULE_DIFF, {"queue": "slow"}, id=id))["changes"]
    with pytest.raises(Forbidden):
        await harness.ask(SCHEDULE_UPDATE, {"queue": "slow"}, id=id)


async def test_there_is_no_diff_of_nothing(harness: OperationsHarness) -> None:
    with pytest.raises(NotFound):
        await harness.ask(SCHEDULE_DIFF, {}, id=NOBODY)


# A dry run of a backfill


def span(first: str, last: str, **fields: Any) -> dict[str, Any]:
    return {"from": f"2026-{first}T00:00:00Z", "to": f"2026-{last}T00:00:00Z", **fields}


async def test_a_dry_run_counts_and_adds_nothing(harness: OperationsHarness) -> None:
    id = await made(harness)
    await harness.ask(SCHEDULE_BACKFILL, span("02-10", "02-13"), id=id)
    counted = await harness.ask(SCHEDULE_BACKFILL, span("02-10", "02-20", dry_run=True), id=id)
    assert counted == {
        "jobs": 7,
        "exist": 3,
        "skipped": 0,
        "first": "2026-02-10T02:30:00Z",
        "last": "2026-02-19T02:30:00Z",
        "more": False,
    }
    done = await harness.ask(SCHEDULE_BACKFILL, span("02-10", "02-20"), id=id)
    assert done == {"jobs": counted["jobs"]}


async def test_a_dry_run_says_whether_there_are_more(harness: OperationsHarness) -> None:
    id = await made(harness)
    for limit, more in ((9, True), (10, False), (11, False)):
        body = span("02-10", "02-20", dry_run=True, limit=limit)
        counted = await harness.ask(SCHEDULE_BACKFILL, body, id=id)
        assert (counted["jobs"], counted["more"]) == (min(limit, 10), more)


async def test_a_dry_run_of_nothing_is_empty(harness: OperationsHarness) -> None:
    id = await made(harness)
    body = {"from": "2026-02-10T03:00:00Z", "to": "2026-02-10T04:00:00Z", "dry_run": True}
    counted = await harness.ask(SCHEDULE_BACKFILL, body, id=id)
    assert counted == {"jobs": 0, "exist": 0, "skipped": 0, "more": False}


async def test_a_dry_run_counts_what_was_skipped(harness: OperationsHarness) -> None:
    id = await made(harness)
    await harness.ask(SCHEDULE_PAUSE, id=id)
    harness.move(days=3)
    await harness.ask(SCHEDULE_RESUME, id=id)
    body = span("03-02", "03-05", dry_run=True)
    counted = await harness.ask(SCHEDULE_BACKFILL, body, id=id)
    assert (counted["jobs"], counted["skipped"], counted["exist"]) == (3, 2, 0)


async def test_the_audit_log_tells_that_a_dry_run_changed_nothing(
    harness: OperationsHarness,
) -> None:
    id = await made(harness)
    await harness.ask(SCHEDULE_BACKFILL, span("02-10", "02-20", dry_run=True), id=id)
    await harness.ask(SCHEDULE_BACKFILL, span("02-10", "02-20"), id=id)
    records = (await harness.ask(AUDIT_LIST, action="schedule.backfill"))["records"]
    assert [one["outcome"] for one in records] == ["done", "unchanged"]


# schedule.occurrences


async def test_occurrences_tell_what_became_of_them(harness: OperationsHarness) -> None:
    id = await made(harness, retry={"attempts_max": 1})
    await harness.ask(SCHEDULE_BACKFILL, span("02-10", "02-13"), id=id)
    await harness.run(Succeeded(), "ledger")
    await harness.run(Failed("at line 1\nno money"), "ledger")
    found = (await harness.ask(SCHEDULE_OCCURRENCES, id=id))["occurrences"]
    told = [(one["at"][:10], one["disposition"], one.get("reason")) for one in found]
    assert told == [
        ("2026-03-03", "planned", None),
        ("2026-02-12", "planned", None),
        ("2026-02-11", "failed", "no money"),
        ("2026-02-10", "ran", None),
    ]
    jobs = (await harness.ask(JOB_LIST, schedule_id=id))["jobs"]
    assert {one["job_id"] for one in found} == {job["id"] for job in jobs}


async def test_runs_of_skips_have_their_reason_and_their_end(harness: OperationsHarness) -> None:
    id = await made(harness)
    await harness.ask(SCHEDULE_PAUSE, id=id)
    harness.move(days=3)
    await harness.ask(SCHEDULE_RESUME, id=id)
    ask = {"id": id, "disposition": "skipped"}
    (run,) = (await harness.ask(SCHEDULE_OCCURRENCES, **ask))["occurrences"]
    assert (run["at"], run["until"], run["reason"]) == (
        "2026-03-03T02:30:00Z",
        "2026-03-05T02:30:00Z",
        "paused",
    )
    within = {"from": "2026-03-04T00:00:00Z", "to": "2026-03-04T12:00:00Z"}
    assert (await harness.ask(SCHEDULE_OCCURRENCES, **ask, **within))["occurrences"] == [run]
    assert (await harness.ask(SCHEDULE_OCCURRENCES, id=id, **within))["occurrences"] == [run]


async def test_pages_lead_to_all_of_them_once(harness: OperationsHarness) -> None:
    id = await made(harness)
    await harness.ask(SCHEDULE_BACKFILL, span("01-01", "03-01"), id=id)
    seen: list[str] = []
    asked: dict[str, str] = {"id": id, "limit": "7", "disposition": "planned"}
    while True:
        page = await harness.ask(SCHEDULE_OCCURRENCES, **asked)
        seen += [one["at"] for one in page["occurrences"]]
        if page["cursor"] is None:
            break
        asked["cursor"] = page["cursor"]
    assert len(seen) == len({*seen}) == 60
    assert seen == sorted(seen, reverse=True)


async def test_a_span_includes_its_ends(harness: OperationsHarness) -> None:
    id = await made(harness)
    await harness.ask(SCHEDULE_BACKFILL, span("02-01", "02-20"), id=id)
    ends = {"from": "2026-02-03T02:30:00Z", "to": "2026-02-05T02:30:00Z"}
    found = (await harness.ask(SCHEDULE_OCCURRENCES, id=id, **ends))["occurrences"]
    assert [one["at"][8:10] for one in found] == ["05", "04", "03"]


async def test_a_search_reads_a_bounded_number_and_goes_on(harness: OperationsHarness) -> None:
    id = await made(harness, cron="* * * * *")
    body = {"from": "2026-02-20T00:00:00Z", "to": "2026-03-01T00:00:00Z", "limit": READ_MAX + 50}
    await harness.ask(SCHEDULE_BACKFILL, body, id=id)
    page = await harness.ask(SCHEDULE_OCCURRENCES, id=id, disposition="failed")
    assert page["occurrences"] == []
    assert page["cursor"] is not None
    asked = {"id": id, "disposition": "failed", "cursor": page["cursor"]}
    assert (await harness.ask(SCHEDULE_OCCURRENCES, **asked))["cursor"] is None
    many = await harness.ask(SCHEDULE_OCCURRENCES, id=id, limit=str(READ_AT_ONCE + 5))
    assert len(many["occurrences"]) == READ_AT_ONCE + 5


async def test_a_deleted_job_is_said_to_be_forgotten(harness: OperationsHarness) -> None:
    id = await made(harness)
    await harness.ask(SCHEDULE_BACKFILL, span("03-01", "03-02"), id=id)
    await harness.run(Succeeded(), "ledger")
    later = harness.clock.at
    harness.move(days=1)
    await harness.store.prune(
        finished_before=harness.clock.at, failed_before=later.replace(year=2025), limit=10
    )
    ask = {"id": id, "disposition": "forgotten"}
    assert len((await harness.ask(SCHEDULE_OCCURRENCES, **ask))["occurrences"]) == 1


# job.reschedule


async def test_a_waiting_job_is_rescheduled(harness: OperationsHarness) -> None:
    id = (await harness.ask(JOB_ENQUEUE, {"task": "mail"}))["id"]
    for due, at in (
        ({"delay": "10m"}, "2026-03-02T12:10:00Z"),
        ({"delay": 0}, "2026-03-02T12:00:00Z"),
        ({"run_at": "2026-03-05T01:00:00+01:00"}, "2026-03-05T00:00:00Z"),
    ):
        assert (await harness.ask(JOB_RESCHEDULE, due, id=id))["run_at"] == at
    history = (await harness.ask(JOB_SHOW, id=id))["history"]
    assert [one["to"] for one in history].count("rescheduled") == 3


@pytest.mark.parametrize(
    "due",
    [{}, {"delay": None}, {"delay": "1m", "run_at": "2026-03-05T00:00:00Z"}, {"delay": "-1m"}],
)
async def test_a_due_time_is_given_once(harness: OperationsHarness, due: dict[str, Any]) -> None:
    id = (await harness.ask(JOB_ENQUEUE, {"task": "mail"}))["id"]
    with pytest.raises(Invalid) as caught:
        await harness.ask(JOB_RESCHEDULE, due, id=id)
    assert caught.value.field in {"run_at", "delay"}


async def test_a_job_that_runs_or_has_ended_stays(harness: OperationsHarness) -> None:
    id = (await harness.ask(JOB_ENQUEUE, {"task": "mail"}))["id"]
    await harness.claim("mail")
    with pytest.raises(Conflict, match="is running; only waiting"):
        await harness.ask(JOB_RESCHEDULE, {"delay": 0}, id=id)
    with pytest.raises(NotFound):
        await harness.ask(JOB_RESCHEDULE, {"delay": 0}, id=NOBODY)


async def test_a_claim_that_comes_first_is_a_conflict(
    harness: OperationsHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    id = (await harness.ask(JOB_ENQUEUE, {"task": "mail"}))["id"]
    reschedule = harness.store.reschedule

    async def after_a_claim(*arguments: Any) -> Any:
        await harness.claim("mail")
        return await reschedule(*arguments)

    monkeypatch.setattr(harness.store, "reschedule", after_a_claim)
    with pytest.raises(Conflict, match="is running; only waiting"):
        await harness.ask(JOB_RESCHEDULE, {"delay": "1h"}, id=id)


async def test_a_job_that_is_deleted_meanwhile_is_not_found(
    harness: OperationsHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    id = (await harness.ask(JOB_ENQUEUE, {"task": "mail"}))["id"]

    async def gone(*_arguments: Any) -> None:
        return None

    monkeypatch.setattr(harness.store, "reschedule", gone)
    with pytest.raises(NotFound):
        await harness.ask(JOB_RESCHEDULE, {"delay": "1h"}, id=id)


# settings.show and session.list


async def test_settings_are_those_of_the_process() -> None:
    one = SettingAnswer(key="api.port", value="8080", origin="default")
    harness = OperationsHarness(settings=(one,))
    assert (await harness.ask(SETTINGS_SHOW))["settings"] == [
        {"key": "api.port", "value": "8080", "origin": "default"}
    ]


async def test_settings_and_sessions_need_admin(harness: OperationsHarness) -> None:
    operator = Principal(name="ops", scopes=frozenset({Scope.READ, Scope.OPERATE}))
    harness.context = harness.context.acting_for(operator)
    for operation, named in ((SETTINGS_SHOW, {}), (SESSION_LIST, {}), (KEY_REVOKE, {"name": "x"})):
        with pytest.raises(Forbidden):
            await harness.ask(operation, **named)


# schedule.put_diff


@pytest.mark.parametrize(
    ("changes", "fields"),
    [
        ({}, []),
        ({"cron": "0 4 * * *"}, ["cron"]),
        ({"labels": {"a": "b"}, "jitter": "1m"}, ["jitter", "labels"]),
    ],
)
async def test_a_diff_by_key_tells_what_the_put_then_does(
    harness: OperationsHarness, changes: dict[str, Any], fields: list[str]
) -> None:
    await harness.ask(SCHEDULE_PUT, {**NIGHTLY, "queue": "slow"}, key="ledger")
    body = {**NIGHTLY, "queue": "slow", **changes}
    diff = await harness.ask(SCHEDULE_PUT_DIFF, body, key="ledger")
    assert ([one["field"] for one in diff["changes"]], "created" in diff) == (fields, False)
    put = await harness.ask(SCHEDULE_PUT, body, key="ledger")
    assert put.get("changed", True) == bool(fields)


async def test_what_a_put_does_not_name_goes_back_to_its_default(
    harness: OperationsHarness,
) -> None:
    await harness.ask(SCHEDULE_PUT, {**NIGHTLY, "queue": "slow"}, key="ledger")
    diff = await harness.ask(SCHEDULE_PUT_DIFF, NIGHTLY, key="ledger")
    assert diff["changes"] == [{"field": "queue", "before": "slow", "after": "default"}]


async def test_a_diff_of_a_new_key_tells_what_would_come_and_adds_nothing(
    harness: OperationsHarness,
) -> None:
    diff = await harness.ask(SCHEDULE_PUT_DIFF, NIGHTLY, key="ledger")
    assert (diff["created"], diff["changes"], diff["cancels"]) == (True, [], 0)
    assert (await harness.ask(SCHEDULE_LIST))["total"] == 0
    id = (await harness.ask(SCHEDULE_PUT, NIGHTLY, key="ledger"))["id"]
    shown = await harness.ask(SCHEDULE_SHOW, id=id)
    assert diff["next_after"] == shown["next_at"] == diff["occurrences"][0]
    assert len(await waiting(harness, id)) == diff["plans"]


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"cron": "61 * * * *"}, "cron"),
        ({"key": "other"}, "key"),
        ({"cron": None, "at": "2001-01-01T00:00:00Z"}, "at"),
    ],
)
async def test_a_diff_by_key_refuses_what_the_put_would(
    harness: OperationsHarness, changes: dict[str, Any], field: str
) -> None:
    for operation in (SCHEDULE_PUT_DIFF, SCHEDULE_PUT):
        with pytest.raises(Invalid) as caught:
            await harness.ask(operation, {**NIGHTLY, **changes}, key="ledger")
        assert caught.value.field == field
