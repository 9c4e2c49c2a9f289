"""Wire records of reports: what the receiver of a callback says of its attempt later."""

from typing import Annotated, Final, Literal

import msgspec
from msgspec import UNSET, Meta, UnsetType

from onbeat.model.errors import Invalid
from onbeat.model.job import JobState, Progress
from onbeat.model.outcome import Failed, Succeeded
from onbeat.wire.worker_results import WorkerReport, read_result

SEAL_CHARS_MAX: Final = 100  # a seal has at most 54


class ProgressBody(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How much is done, of how much in all."""

    done: Annotated[float, Meta(ge=0)]
    total: Annotated[float, Meta(ge=0)] | None = None


class ReportBody(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The end of the attempt, with its `result` or its `error`; or `running`, with its `progress`.

    With `retry` false a failed job is not tried again.
    """

    outcome: Literal["succeeded", "failed", "running"]
    result: Annotated[msgspec.Raw | UnsetType, Meta(description="Any JSON")] = UNSET
    error: str | UnsetType = UNSET
    retry: bool | UnsetType = UNSET
    progress: ProgressBody | UnsetType = UNSET


class SealedReport(msgspec.Struct, frozen=True, kw_only=True):
    """A report with the parts of its address."""

    id: str
    seal: Annotated[str, Meta(max_length=SEAL_CHARS_MAX)]
    report: ReportBody


class ReportAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """Whether the outcome is stored, and the job's state. A `cancel_reason` asks to stop."""

    settled: bool
    state: JobState
    cancel_reason: str | None = None


FIELDS: Final = {
    "succeeded": frozenset({"result"}),
    "failed": frozenset({"error", "retry"}),
    "running": frozenset({"progress"}),
}
"""What goes with each outcome."""


def read_report_body(body: ReportBody) -> WorkerReport | Progress | None:
    """The end of the attempt, or how far it is; None where it only goes on.

    Raises `Invalid` for a field that does not go with the outcome.
    """
    for name in ("result", "error", "retry", "progress"):
        if getattr(body, name) is not UNSET and name not in FIELDS[body.outcome]:
            raise Invalid(f"{name} does not go with the outcome {body.outcome}", name)
    if body.outcome == "running":
        progress = body.progress
        return None if progress is UNSET else Progress(progress.done, progress.total)
    if body.outcome == "failed":
        error = "the receiver gave no reason" if body.error is UNSET else body.error
        return WorkerReport(outcome=Failed(error, retryable=body.retry is not False))
    text = msgspec.Raw(b"null") if body.result is UNSET else body.result
    return WorkerReport(outcome=Succeeded(read_result(text)))
