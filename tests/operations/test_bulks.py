"""Bulks as callers see them: counted, made once, stopped, in the audit log."""

from datetime import datetime, timedelta
from typing import Any

import pytest

from onbeat.engine.bulk import BULK_PERIOD, BulkRunner
from onbeat.model.errors import Invalid, NotFound
from onbeat.model.job import JobState
from onbeat.model.outcome import Failed
from onbeat.operations.invoke import call_once, request_from
from onbeat.operations.tables.administration import AUDIT_LIST
from onbeat.operations.tables.jobs import (
    BULK_LIST,
    BULK_SHOW,
    BULK_STOP,
    JOB_BULK,
    JOB_ENQUEUE,
    JOB_LIST,
    JOB_RETRY,
    JOB_SHOW,
)
from onbeat.testing.build import an_id
from operations.harness import OperationsHarness

FAILURE = Failed("Traceback\nTimeout: no answer", retryable=False)


@pytest.fixture
def office() -> OperationsHarness:
    return OperationsHarness()


async def add(office: OperationsHarness, count: int, **fields: Any) -> list[str]:
    body = {"jobs": [{"task": "mail", **fields} for _ in range(count)]}
    return (await office.ask(JOB_ENQUEUE, body))["ids"]


async def fail(office: OperationsHarness, count: int, **fields: Any) -> list[str]:
    ids = await add(office, count, **fields)
    for _ in ids:
        await office.run(FAILURE, "mail")
    return ids


async def make(office: OperationsHarness, do: str = "retry", **body: Any) -> dict[str, Any]:
    where = body.pop("where", {})
    return await office.ask(JOB_BULK, {"do": do, "where": where, **body})


async def run_bulks(office: OperationsHarness) -> None:
    """As the maintenance of a process does, until nothing is left to do."""
    runner = BulkRunner(office.store, office.clock)
    while (pause := await runner.step()) < BULK_PERIOD:
        office.move(seconds=pause)


async def states(office: OperationsHarness, ids: list[str]) -> list[str]:
    return [(await office.ask(JOB_SHOW, id=id))["state"] for id in ids]


async def test_a_dry_run_counts_and_changes_nothing(office: OperationsHarness) -> None:
    ids = await fail(office, 7, labels={"run": "7"})
    await add(office, 2)
    counted = await make(office, where={"label": "run:7"}, dry_run=True)
    assert (counted["count"], counted["more"], counted["states"]) == (7, False, {"failed": 7})
    assert counted["upto"] == ids[-1]
    assert [job["id"] for job in counted["sample"]] == ids[:-6:-1]
    assert counted["created"] is False
    assert "id" not in counted
    assert (await office.ask(BULK_LIST))["bulks"] == []
    assert (await office.ask(AUDIT_LIST))["records"] == []


async def test_a_bulk_is_made_run_and_audited_once(office: OperationsHarness) -> None:
    ids = await fail(office, 3)
    made = await make(office, where={"task": "ma*", "error": "TIMEOUT"})
    assert (made["count"], made["state"], made["created"]) == (3, "waiting", True)
    await run_bulks(office)
    shown = await office.ask(BULK_SHOW, id=made["id"])
    assert (shown["state"], shown["done"], shown["counted"]) == ("done", 3, 3)
    assert shown["where"]["task"] == "ma*"
    assert await states(office, ids) == ["waiting"] * 3
    records = (await office.ask(AUDIT_LIST))["records"]
    assert [(one["action"], one["outcome"]) for one in records] == [("job.bulk", "done")]
    assert records[0]["object"] == f"bulk/{made['id']}"


async def test_bulk_skips_what_moved_on(office: OperationsHarness) -> None:
    ids = await fail(office, 4)
    made = await make(office)
    await office.ask(JOB_RETRY, id=ids[2])
    await run_bulks(office)
    shown = await office.ask(BULK_SHOW, id=made["id"])
    assert (shown["done"], shown["skipped"]) == (3, 1)


async def test_what_came_after_the_dry_run_is_left_alone(office: OperationsHarness) -> None:
    ids = await add(office, 2)
    counted = await make(office, "cancel", dry_run=True)
    later = await add(office, 2)
    made = await make(office, "cancel", upto=counted["upto"])
    assert made["count"] == 2
    await run_bulks(office)
    assert await states(office, [*ids, *later]) == ["cancelled"] * 2 + ["waiting"] * 2


async def test_a_large_bulk_can_be_undone(office: OperationsHarness) -> None:
    ids = await add(office, 101)
    made = await make(office, "cancel")
    assert (await office.ask(BULK_STOP, id=made["id"]))["state"] == "stopped"
    await run_bulks(office)
    assert set(await states(office, ids)) == {"waiting"}
    (record,) = [
        one for one in (await office.ask(AUDIT_LIST))["records"] if one["action"] == "job.bulk"
    ]
    assert record["outcome"] == "stopped"


async def test_a_large_bulk_starts_by_itself_after_ten_seconds(office: OperationsHarness) -> None:
    ids = await add(office, 101)
    await make(office, "cancel")
    runner = BulkRunner(office.store, office.clock)
    assert await runner.step() == BULK_PERIOD
    assert set(await states(office, ids)) == {"waiting"}
    office.move(seconds=10)
    await run_bulks(office)
    assert set(await states(office, ids)) == {"cancelled"}


async def test_one_job_that_cannot_be_retried_does_not_hold_the_others(
    office: OperationsHarness,
) -> None:
    (blocked,) = await fail(office, 1, unique="key")
    ids = await fail(office, 5)
    await add(office, 1, unique="key")
    made = await make(office)
    await run_bulks(office)
    shown = await office.ask(BULK_SHOW, id=made["id"])
    assert (shown["state"], shown["done"], shown["failed"]) == ("done", 5, 1)
    assert await states(office, [blocked, *ids]) == ["failed", *["waiting"] * 5]


async def test_named_jobs_are_judged_by_the_filter(office: OperationsHarness) -> None:
    ids = await fail(office, 3)
    waiting = await add(office, 1)
    made = await make(office, where={"ids": [*ids[:2], *waiting]})
    assert made["count"] == 2
    await run_bulks(office)
    assert await states(office, ids) == ["waiting", "waiting", "failed"]


async def test_a_repeated_request_makes_one_bulk(office: OperationsHarness) -> None:
    await add(office, 1)
    body = b'{"do": "cancel", "where": {}}'
    request = request_from(JOB_BULK, {}, body)
    first, was_repeated = await call_once(office.context, JOB_BULK, request, "key-of-the-caller")
    again, is_repeated = await call_once(office.context, JOB_BULK, request, "key-of-the-caller")
    assert (was_repeated, is_repeated) == (False, True)
    assert again == first
    assert len((await office.ask(BULK_LIST))["bulks"]) == 1


async def test_nothing_that_matches_ends_at_once(office: OperationsHarness) -> None:
    made = await make(office, where={"queue": "none"})
    assert (made["count"], made["upto"], made["sample"]) == (0, None, [])
    await run_bulks(office)
    assert (await office.ask(BULK_SHOW, id=made["id"]))["state"] == "done"


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({"do": "retry", "where": {"state": "waiting"}}, "where.state"),
        ({"do": "retry", "where": {"label": "run"}}, "where.label"),
        (
            {
                "do": "retry",
                "where": {"since": "2026-01-02T00:00:00Z", "until": "2026-01-01T00:00:00Z"},
            },
            "where.until",
        ),
    ],
)
async def test_an_impossible_filter_is_refused_by_name(
    office: OperationsHarness, body: object, field: str
) -> None:
    with pytest.raises(Invalid) as raised:
        await office.ask(JOB_BULK, body)
    assert raised.value.field == field


async def test_an_unknown_filter_is_refused(office: OperationsHarness) -> None:
    with pytest.raises(Invalid, match="color"):
        await office.ask(JOB_BULK, {"do": "retry", "where": {"color": "mail"}})


async def test_an_unknown_bulk_is_not_found(office: OperationsHarness) -> None:
    for operation in (BULK_SHOW, BULK_STOP):
        with pytest.raises(NotFound, match="Bulk not found"):
            await office.ask(operation, id=an_id())


async def test_bulks_are_listed_by_pages(office: OperationsHarness) -> None:
    made = [(await make(office, "cancel"))["id"] for _ in range(3)]
    first = await office.ask(BULK_LIST, limit="2")
    assert [bulk["id"] for bulk in first["bulks"]] == made[:0:-1]
    rest = await office.ask(BULK_LIST, limit="2", cursor=first["cursor"])
    assert [bulk["id"] for bulk in rest["bulks"]] == made[:1]
    assert rest["cursor"] is None


async def test_filters_are_the_apis(office: OperationsHarness) -> None:
    (failed,) = await fail(office, 1, labels={"run": "a,b"}, queue="q")
    await add(office, 1)
    at = (await office.ask(JOB_SHOW, id=failed))["finished_at"]
    filters = {
        "state": str(JobState.FAILED),
        "queue": "q",
        "task": "m*",
        "label": "run:a\\,b",
        "since": at,
        "error": "no answer",
    }
    assert [job["id"] for job in (await office.ask(JOB_LIST, **filters))["jobs"]] == [failed]
    for name, other in {"until": at, "label": "run:a", "error": "refused"}.items():
        found = await office.ask(
            JOB_LIST, **{**filters, "since": "2020-01-01T00:00:00Z", name: other}
        )
        assert found["jobs"] == [], name


async def test_a_rescheduling_gives_one_due_time_to_all(office: OperationsHarness) -> None:
    ids = await add(office, 2, delay="1d")
    due_at = office.clock.now() + timedelta(hours=2)
    counted = await make(office, "reschedule", delay="2h", dry_run=True)
    assert (counted["count"], counted["states"]) == (2, {"waiting": 2})
    assert datetime.fromisoformat(counted["run_at"]) == due_at
    made = await make(office, "reschedule", delay="2h")
    office.move(seconds=5)
    await run_bulks(office)
    shown = await office.ask(BULK_SHOW, id=made["id"])
    assert (shown["done"], shown["run_at"]) == (2, counted["run_at"])
    for id in ids:
        assert (await office.ask(JOB_SHOW, id=id))["run_at"] == counted["run_at"]


@pytest.mark.parametrize(
    ("do", "due", "field"),
    [
        ("reschedule", {}, "run_at"),
        ("reschedule", {"delay": "1h", "run_at": "2030-01-01T00:00:00Z"}, "run_at"),
        ("reschedule", {"delay": "soon"}, "delay"),
        ("cancel", {"delay": "1h"}, "delay"),
        ("retry", {"run_at": "2030-01-01T00:00:00Z"}, "run_at"),
    ],
)
async def test_a_due_time_is_for_a_rescheduling(
    office: OperationsHarness, do: str, due: dict[str, str], field: str
) -> None:
    with pytest.raises(Invalid) as refused:
        await make(office, do, **due, dry_run=True)
    assert refused.value.field == field
