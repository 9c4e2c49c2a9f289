"""Every change leaves one record: who, what, to which object, and what came of it."""

import json
from typing import Any

import pytest

from onbeat.model.access import AuditFilter, AuditRecord
from onbeat.model.errors import Conflict, Forbidden, Invalid, NotFound, Unavailable
from onbeat.model.principal import Principal, Scope
from onbeat.operations.table import OPERATIONS
from onbeat.operations.tables.administration import AUDIT_LIST, KEY_CREATE
from onbeat.operations.tables.fleet import QUEUE_PAUSE
from onbeat.operations.tables.jobs import JOB_CANCEL, JOB_ENQUEUE, JOB_LIST
from onbeat.operations.tables.operation import Operation
from onbeat.operations.tables.schedules import SCHEDULE_CREATE, SCHEDULE_PUT, SCHEDULE_UPDATE
from operations.harness import OperationsHarness

SECRET = "whsec_" + "A" * 32
SCHEDULE = {
    "name": "nightly",
    "every": "1h",
    "target": {
        "http": {
            "url": "https://example.com/hook?key=canary",
            "headers": {"Authorization": "Bearer canary"},
            "body": "canary",
            "secret": SECRET,
        }
    },
}


@pytest.fixture
def office() -> OperationsHarness:
    return OperationsHarness()


async def records(office: OperationsHarness, **filters: Any) -> list[dict[str, Any]]:
    return (await office.ask(AUDIT_LIST, **filters))["records"]


async def test_a_change_leaves_a_record(office: OperationsHarness) -> None:
    await office.ask(QUEUE_PAUSE, name="mail")
    (record,) = await records(office)
    assert {**record, "id": None} == {
        "id": None,
        "at": "2026-03-02T12:00:00Z",
        "actor": "local",
        "action": "queue.pause",
        "object": "queue/mail",
        "request": {"name": "mail"},
        "outcome": "done",
    }


async def test_what_looks_or_submits_leaves_none(office: OperationsHarness) -> None:
    await office.ask(JOB_ENQUEUE, {"task": "export"})
    await office.ask(JOB_LIST)
    assert await records(office) == []


def test_all_that_operates_is_audited() -> None:
    audited = {operation.name for operation in OPERATIONS if operation.is_audited}
    assert audited >= {
        "schedule.create", "schedule.put", "schedule.update", "schedule.delete", "schedule.pause",
        "schedule.resume", "schedule.trigger", "schedule.backfill", "job.cancel", "job.retry",
        "queue.pause", "queue.resume", "queue.limit", "dead.replay", "dead.delete", "key.create",
        "key.revoke",
    }  # fmt: skip
    looking = {"GET"} | {
        operation.name
        for operation in OPERATIONS
        if operation.scope in {Scope.READ, Scope.SUBMIT, Scope.WORK}
    }
    assert not audited & looking


async def test_no_secret_and_no_payload_reaches_the_log(office: OperationsHarness) -> None:
    made = await office.ask(SCHEDULE_CREATE, SCHEDULE)
    await office.ask(KEY_CREATE, {"name": "grafana", "scopes": ["read"]})
    key, schedule = await records(office)
    assert schedule["object"] == f"schedule/{made['id']}"
    assert key["object"] == "key/grafana"
    text = json.dumps([key, schedule])
    assert "canary" not in text
    assert SECRET not in text
    assert "onb_" not in text
    assert schedule["request"]["schedule"]["target"]["http"]["url"] == "https://example.com/hook"


async def test_not_even_of_a_request_that_was_refused(office: OperationsHarness) -> None:
    target = {"http": {"url": "https://canary:canary@example.com:444/x"}}
    with pytest.raises(Invalid):
        await office.ask(SCHEDULE_CREATE, SCHEDULE | {"target": target})
    (record,) = await records(office)
    assert record["request"]["schedule"]["target"]["http"]["url"] == "https://example.com:444/x"


async def test_a_long_request_is_told_by_its_fields(office: OperationsHarness) -> None:
    labels = {f"label-{number}": "x" * 190 for number in range(50)}
    await office.ask(SCHEDULE_CREATE, SCHEDULE | {"labels": labels})
    (record,) = await records(office)
    assert record["request"]["fields"] == ["schedule"]
    assert record["request"]["bytes"] > 9_000


@pytest.mark.parametrize(
    ("operation", "named", "body", "error", "outcome"),
    [
        (SCHEDULE_UPDATE, {"id": "01900000-0000-7000-8000-000000000000"}, {"name": "x"}, NotFound, "not_found"),
        (SCHEDULE_CREATE, {}, {"name": "x", "every": "1h"}, Invalid, "validation_failed"),
    ],
)  # fmt: skip
async def test_a_change_that_failed_says_so(
    office: OperationsHarness,
    operation: Operation,
    named: dict[str, Any],
    body: dict[str, Any],
    error: type[Any],
    outcome: str,
) -> None:
    with pytest.raises(error):
        await office.ask(operation, body, **named)
    (record,) = await records(office)
    assert record["outcome"] == outcome


async def test_what_was_so_already_is_unchanged(office: OperationsHarness) -> None:
    body = {"every": "1h", "target": {"task": "export"}}
    for _ in range(2):
        await office.ask(SCHEDULE_PUT, body, key="nightly")
    assert [record["outcome"] for record in await records(office)] == ["unchanged", "done"]
    assert {record["object"] for record in await records(office)} == {"schedule/nightly"}


async def test_a_change_that_cannot_be_recorded_is_not_made(office: OperationsHarness) -> None:
    async def full(*_: Any, **__: Any) -> Any:
        raise Unavailable("the disk is full")

    office.store.put_audit = full
    with pytest.raises(Unavailable):
        await office.ask(QUEUE_PAUSE, name="mail")
    assert list(await office.store.queues(office.clock.now())) == []


async def test_a_change_whose_end_was_not_noted_stays_begun(office: OperationsHarness) -> None:
    real, calls = office.store.put_audit, []

    async def once(record: AuditRecord) -> None:
        calls.append(record)
        if len(calls) > 1:
            raise Unavailable
        await real(record)

    office.store.put_audit = once
    await office.ask(QUEUE_PAUSE, name="mail")
    (record,) = await records(office)
    assert record["outcome"] == "begun"


async def test_what_the_scope_forbids_changes_nothing_and_leaves_no_record(
    office: OperationsHarness,
) -> None:
    looker = Principal(name="looker", scopes=frozenset({Scope.READ}))
    office.context = office.context.acting_for(looker)
    with pytest.raises(Forbidden, match="`operate`"):
        await office.ask(QUEUE_PAUSE, name="mail")
    with pytest.raises(Forbidden, match="`admin`"):
        await office.ask(AUDIT_LIST)
    assert list(await office.store.audit(AuditFilter())) == []


async def test_records_are_listed_by_pages_and_by_each_field(office: OperationsHarness) -> None:
    for number in range(5):
        await office.ask(QUEUE_PAUSE, name=f"q{number}")
        office.move(seconds=1)
    first = await office.ask(AUDIT_LIST, limit="2")
    assert [one["object"] for one in first["records"]] == ["queue/q4", "queue/q3"]
    rest = await office.ask(AUDIT_LIST, limit="5", cursor=first["cursor"])
    assert [one["object"] for one in rest["records"]] == ["queue/q2", "queue/q1", "queue/q0"]
    assert rest["cursor"] is None
    assert len(await records(office, object="queue/q1")) == 1
    assert await records(office, actor="nobody") == []
    assert len(await records(office, since="2026-03-02T12:00:03Z")) == 2
    assert len(await records(office, until="2026-03-02T12:00:03Z")) == 3
    with pytest.raises(Invalid, match="audit record"):
        await office.ask(AUDIT_LIST, cursor="7")


async def test_a_cancel_names_its_job(office: OperationsHarness) -> None:
    id = (await office.ask(JOB_ENQUEUE, {"task": "export"}))["id"]
    await office.ask(JOB_CANCEL, {"reason": "not needed"}, id=id)
    (record,) = await records(office)
    assert (record["object"], record["request"]["why"]) == (f"job/{id}", {"reason": "not needed"})


async def test_two_keys_of_one_name_leave_the_refusal(office: OperationsHarness) -> None:
    draft = {"name": "grafana", "scopes": ["read"]}
    await office.ask(KEY_CREATE, draft)
    with pytest.raises(Conflict):
        await office.ask(KEY_CREATE, draft)
    assert [record["outcome"] for record in await records(office)] == ["conflict", "done"]
