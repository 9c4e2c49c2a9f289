"""Conditions as they are saved: compiled once, with a target that can be asked."""

from collections.abc import Sequence
from typing import Final

from msgspec.structs import replace

from onbeat.model.condition import Condition
from onbeat.model.errors import Invalid
from onbeat.model.job import Job
from onbeat.model.target import HandlerTarget, HttpTarget
from onbeat.operations.context import OperationContext, checked_target
from onbeat.operations.encryption import encrypted_target
from onbeat.ports.expressions import ValueKind
from onbeat.rules.condition import ANY_JOB, NAMES, Known, check_reads
from onbeat.rules.origins import fields_under, with_credentials_of

NEEDS_EXPIRY: Final = "condition.else puts the job off, for ever without {0}: give {0} too"


def stored_condition(
    context: OperationContext,
    condition: Condition | None,
    before: Condition | None = None,
    prefix: str = "",
    known: Known = ANY_JOB,
) -> Condition | None:
    """The condition in its stored form. Raises `Invalid` with the field and the place in its text.

    A `***` in what it asks stands for the credential that is stored in `before`.
    """
    if condition is None:
        return None
    check_text(context, condition, known, prefix)
    ask = condition.ask
    if ask is None:
        return condition
    field = f"{prefix}condition.ask"
    stored = None if before is None else before.ask
    target = checked_target(context, ask, f"{field}.http")
    target = with_credentials_of(stored, target, fields_under(f"{field}.http."))
    target = encrypted_target(context.cipher, target, stored, field)
    assert isinstance(target, (HandlerTarget, HttpTarget)), "its kind does not change"
    return replace(condition, ask=target)


def check_text(
    context: OperationContext, condition: Condition, known: Known, prefix: str = ""
) -> None:
    """Raises `Invalid` for a text that does not compile, or reads what its jobs never have."""
    if condition.text is None:
        return
    field = f"{prefix}condition.if"
    text = context.expressions.compile(condition.text, NAMES, field, ValueKind.TRUTH)
    check_reads(condition, text.reads, known, field)


def check_expiry(condition: Condition | None, expires: object, name: str, prefix: str = "") -> None:
    """Raises `Invalid` for a condition that puts a job off that never expires."""
    if condition is not None and condition.postpone is not None and expires is None:
        raise Invalid(prefix + NEEDS_EXPIRY.format(name), f"{prefix}condition.else")


def has_conditions(jobs: Sequence[Job]) -> bool:
    return any(job.condition is not None for job in jobs)


def with_stored_conditions(context: OperationContext, jobs: Sequence[Job]) -> Sequence[Job]:
    """The jobs of callers in this process, with their conditions in the stored form."""
    return [with_stored_condition(context, job) for job in jobs]


def with_stored_condition(context: OperationContext, job: Job) -> Job:
    check_expiry(job.condition, job.expires_at, "expires_in")
    return replace(job, condition=stored_condition(context, job.condition))
