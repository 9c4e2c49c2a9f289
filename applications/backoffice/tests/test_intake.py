"""Billing tasks of publishers of the old system."""

import json
from typing import Any

import pytest

from backoffice.distributor import key_of
from backoffice.intake import DeadMessage, read_message
from backoffice.tasks import BillingTask

OLD: dict[str, Any] = {
    "run_id": "billing_run_lock:MONTHLY:2026-11",
    "billing_type": "MONTHLY",
    "workspace_id": 3,
    "creator_id": 5,
    "subscription_id": 7,
    "action": "renewal",
    "plan_to_bill": 2,
    "provider_subscription_id": "",
}


def read(**changes: object) -> BillingTask | DeadMessage:
    return read_message(json.dumps(OLD | changes).encode())


def test_s1_12_the_eight_fields_are_taken() -> None:
    task = read()
    assert isinstance(task, BillingTask)
    assert vars(task) == OLD | {"run_id": "MONTHLY:2026-10"}
    assert key_of(task) == "MONTHLY:7:2026-10"


@pytest.mark.parametrize(
    ("type", "run_id", "period"),
    [
        ("monthly", "billing_run_lock:MONTHLY:2026-01", "MONTHLY:2025-12"),
        ("ANNUAL", "billing_run_lock:ANNUAL:2027", "ANNUAL:2026"),
        ("annual", "billing_run_lock:ANNUAL:2027", "ANNUAL:2026"),
    ],
)
def test_s1_d01_the_type_may_be_in_either_case(type: str, run_id: str, period: str) -> None:
    """The old run id names when it ran; the bill is about the period before."""
    task = read(billing_type=type, run_id=run_id)
    assert isinstance(task, BillingTask)
    assert (task.billing_type, task.run_id) == (type.upper(), period)


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        (b"", "the body is not JSON"),
        (b"\xff{", "the body is not JSON"),
        (b"[]", "the body is not an object"),
        (json.dumps({k: v for k, v in OLD.items() if k != "plan_to_bill"}), "plan_to_bill is missing"),
        (json.dumps(OLD | {"workspace_id": "3"}), "workspace_id is not a whole number"),
        (json.dumps(OLD | {"workspace_id": True}), "workspace_id is not a whole number"),
        (json.dumps(OLD | {"provider_subscription_id": None}), "provider_subscription_id is not a text"),
        (json.dumps(OLD | {"workspace_id": 2**63}), "workspace_id is not a whole number from 0 to"),
        (json.dumps(OLD | {"creator_id": -1}), "creator_id is not a whole number from 0 to"),
        (json.dumps(OLD | {"provider_subscription_id": 256 * "x"}), "provider_subscription_id is not a text of 255"),
        (json.dumps(OLD | {"provider_subscription_id": "\ud800"}), "provider_subscription_id is not a text"),
        (100_000 * "[", "the body is not JSON"),
        (json.dumps(OLD | {"billing_type": "WEEKLY"}), "billing_type is MONTHLY or ANNUAL"),
        (json.dumps(OLD | {"action": "cancel"}), "action is renewal or upgrade"),
        (json.dumps(OLD | {"run_id": "2026-11"}), "run_id is not such as billing_run_lock:MONTHLY"),
        (json.dumps(OLD | {"run_id": "billing_run_lock:MONTHLY:2026-13"}), "run_id has a month"),
    ],
)  # fmt: skip
def test_s1_d06_a_malformed_task_is_refused_with_the_name_of_its_field(
    body: str | bytes, reason: str
) -> None:
    found = read_message(body if isinstance(body, bytes) else body.encode())
    assert isinstance(found, DeadMessage)
    assert found.reason.startswith(reason)
    assert len(found.body) <= 50_000


@pytest.mark.parametrize("text", ["\x01", '"', "é", "🙂", "x", "\x00"])
def test_s1_d06_what_is_kept_of_a_message_fits_into_a_message(text: str) -> None:
    """Also where each of its characters is stored as six bytes, or twelve."""
    found = read_message((60_000 * text).encode())
    assert isinstance(found, DeadMessage)
    stored = len(json.dumps(found.body))
    assert 50_000 - len(json.dumps(text)) <= stored <= 50_000
    assert set(found.body) == {text}


def test_s1_d06_a_short_message_is_kept_whole() -> None:
    found = read_message(b"\x01 no task")
    assert isinstance(found, DeadMessage)
    assert found.body == "\x01 no task"


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({}, "run_id names a calendar period, and bills are by anniversary"),
        ({"action": "cancel"}, "action is renewal or upgrade"),
    ],
)
def test_s1_d18_a_calendar_period_is_no_bill_where_bills_are_by_anniversary(
    changes: dict[str, object], reason: str
) -> None:
    body = json.dumps(OLD | changes).encode()
    found = read_message(body, by_anniversary=True)
    assert isinstance(found, DeadMessage)
    assert found.reason == reason
