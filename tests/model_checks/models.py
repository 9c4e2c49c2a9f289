"""What one job, one unique key and one schedule do, an operation at a time."""

from collections.abc import Iterator
from typing import Final, NamedTuple

from model_checks.linearizability import UNKNOWN, Model, Operation


class Lease(NamedTuple):
    """A job's state, the token of its last lease, and the attempts that were settled."""

    state: str = "waiting"
    token: int = 0
    settled: frozenset[tuple[int, str]] = frozenset()


ENDS: Final = {"succeed": "succeeded", "fail": "failed", "release": "waiting", "lose": "waiting"}


def lease_steps(lease: Lease, one: Operation) -> Iterator[Lease]:
    match one.verb:
        case "claim":
            yield from claim_steps(lease, one)
        case "settle":
            yield from settle_steps(lease, one)
        case "cancel":
            yield from cancel_steps(lease, one)
        case "retry":
            is_lost = lease.state in {"failed", "cancelled"}
            after = lease._replace(state="waiting") if is_lost else lease
            if one.answer in (UNKNOWN, shown(after)):
                yield after
        case "read":
            if one.answer in (UNKNOWN, (shown(lease), lease.token)):
                yield lease
        case verb:
            raise AssertionError(verb)


def shown(lease: Lease) -> str:
    """A job that was asked to stop is shown as running."""
    return "running" if lease.state == "stopping" else lease.state


def claim_steps(lease: Lease, one: Operation) -> Iterator[Lease]:
    """The answer is the new token; None for a claim that got nothing.

    Nothing is a right answer at any time: a claim leaves out a row that another one has locked.
    """
    if one.answer is None:
        yield lease
    elif lease.state == "waiting" and one.answer in (UNKNOWN, lease.token + 1):
        yield lease._replace(state="running", token=lease.token + 1)


def settle_steps(lease: Lease, one: Operation) -> Iterator[Lease]:
    """The argument is a token and how it ended; the answer is whether it counted."""
    attempt = token, how = one.argument
    was_settled = attempt in lease.settled
    if lease.token == token and lease.state in {"running", "stopping"}:
        is_stopped = lease.state == "stopping" and ENDS[how] == "waiting"
        state = "cancelled" if is_stopped else ENDS[how]
        if one.answer in (UNKNOWN, True):
            yield Lease(state, token, lease.settled | {attempt})
    elif one.answer in (UNKNOWN, was_settled):
        yield lease


def cancel_steps(lease: Lease, one: Operation) -> Iterator[Lease]:
    """The answer is the state in which the job is; a running one is asked to stop."""
    state = {"waiting": "cancelled", "running": "stopping"}.get(lease.state, lease.state)
    after = lease._replace(state=state)
    if one.answer in (UNKNOWN, shown(after)):
        yield after


class Key(NamedTuple):
    """The live job that has the key, and the jobs that ever had it."""

    holder: str = ""
    created: frozenset[str] = frozenset()


def key_steps(key: Key, one: Operation) -> Iterator[Key]:
    """`enqueue` names a new job, and answers with the holder; `cancel` ends a job if it exists."""
    if one.verb == "enqueue":
        is_new = not key.holder and one.argument not in key.created
        after = Key(one.argument, key.created | {one.argument}) if is_new else key
        answer = one.argument if one.argument in after.created else after.holder
    else:
        exists = one.argument in key.created
        after = key._replace(holder="") if key.holder == one.argument else key
        answer = "cancelled" if exists else None
    if one.answer in (UNKNOWN, answer):
        yield after


class Ledger(NamedTuple):
    """A schedule's version, and by instant the job of the first plan that had it."""

    version: int = 1
    jobs: frozenset[tuple[int, str]] = frozenset()


def ledger_steps(ledger: Ledger, one: Operation) -> Iterator[Ledger]:
    """`plan` has a version and jobs by instant; `edit` the version it makes; `read` all jobs."""
    match one.verb:
        case "plan":
            version, jobs = one.argument
            is_current = version == ledger.version
            known = {at for at, _ in ledger.jobs}
            new = frozenset((at, id) for at, id in jobs if at not in known)
            after = ledger._replace(jobs=ledger.jobs | new) if is_current else ledger
            if one.answer in (UNKNOWN, is_current):
                yield after
        case "edit":
            is_current = one.argument == ledger.version + 1
            if one.answer in (UNKNOWN, is_current):
                yield ledger._replace(version=one.argument) if is_current else ledger
        case "read":
            if one.answer in (UNKNOWN, ledger.jobs):
                yield ledger
        case verb:
            raise AssertionError(verb)


JOB: Final = Model(Lease(), lease_steps)
KEY: Final = Model(Key(), key_steps)
SCHEDULE: Final = Model(Ledger(), ledger_steps)
