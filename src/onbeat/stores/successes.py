"""Successes as settlements, for what a store writes no faster."""

from onbeat.model.outcome import Succeeded
from onbeat.ports.store import Settlement, SucceededAttempt
from onbeat.rules.settlement import attempt_of, settle


def settlement_of(success: SucceededAttempt) -> Settlement:
    job, at = success.job, success.finished_at
    outcome = Succeeded(success.result)
    return Settlement(job=settle(job, outcome, at, 0.0), attempt=attempt_of(job, outcome, at))
