"""The records that go through the queues, with the fields that the old system gave them."""

from dataclasses import dataclass
from typing import Final

BILLING_QUEUE: Final = "billing_tasks"
RECORDING_QUEUE: Final = "recording_tasks"
FAILED_QUEUE: Final = "failed_payments"

MONTHLY: Final = "billing.distribute_monthly"
ANNUAL: Final = "billing.distribute_annual"
DEBUG: Final = "billing.distribute_debug"
RETRY_FAILED: Final = "billing.retry_failed"
CHARGE: Final = "billing.charge"
"""Names of tasks; all but the last of schedules too."""

RUN_LABEL: Final = "run"
"""Of a charge: the id of the job that has sent it."""


@dataclass(frozen=True, kw_only=True)
class BillingTask:
    """One bill of one subscription.

    `run_id` is the type of the run and the period that it bills, such as `MONTHLY:2026-10`.
    `billing_type` is MONTHLY or ANNUAL; `action` is `renewal` or `upgrade`.
    """

    run_id: str
    billing_type: str
    workspace_id: int
    creator_id: int
    subscription_id: int
    action: str
    plan_to_bill: int
    provider_subscription_id: str


@dataclass(frozen=True, kw_only=True)
class RecordingTask:
    """One recording to be moved. `trim` is `true`, or anything else for no."""

    id: int
    status: str
    storage_id: str
    storage_server_ip: str
    trim: str


@dataclass(frozen=True, kw_only=True)
class FailedBillingTask:
    """What `failed_payments` gets when a bill has failed for good."""

    run_id: str
    workspace_id: int
    subscription_id: int
    creator_id: int
    reason: str
