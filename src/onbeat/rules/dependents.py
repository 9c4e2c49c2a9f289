"""The effects of a job's end on its dependents: which are freed, and which are cancelled.

A dependent waits for the success of another job (`after`) or for any end of it (an overlap rule). A
success frees its dependents. Any other end cancels those that need a success, and in turn their
dependents. The search goes level by level in a loop, since chains may be of any length.
"""

from collections import defaultdict
from collections.abc import Container, Iterable, Mapping, Sequence
from typing import Final, Protocol, TypeVar

import msgspec

from onbeat.model.errors import Invalid
from onbeat.model.ids import JobId
from onbeat.model.job import JobState
from onbeat.model.limits import DEPENDENTS_MAX

LEVEL_COST: Final = 4
"""The cost of a level in dependents: it takes a round trip to the store."""


Instant = TypeVar("Instant")
Instant_co = TypeVar("Instant_co", covariant=True)


class AddedJob(Protocol[Instant_co]):
    """A job to be added, and the jobs whose success it needs."""

    @property
    def id(self) -> JobId: ...

    @property
    def after(self) -> Sequence[JobId]: ...

    @property
    def created_at(self) -> Instant_co: ...


class Wait(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """`job_id` waits for `awaits`: for its success, or with `any_end` for any end of it."""

    job_id: JobId
    awaits: JobId
    any_end: bool


def cause_of(id: JobId, state: str) -> str:
    """The cancel reason of a job that needed the success of this one."""
    return f"job {id} it waited for {'failed' if state == JobState.FAILED else 'was cancelled'}"


def is_lost(state: str | None) -> bool:
    """Whether the job ended in a state in which dependents on its success cannot run any more."""
    return state in (JobState.FAILED, JobState.CANCELLED)


def refuse_unknown(jobs: Sequence[AddedJob[object]], known: Container[JobId]) -> None:
    """Raise `Invalid` if a new job waits for an unknown job, or for one that is added after it.

    `known` are the awaited jobs that are stored; they may include `jobs` of the same call.
    """
    places = {job.id: place for place, job in enumerate(jobs)}
    for place, job in enumerate(jobs):
        for other in job.after:
            if other not in known or places.get(other, -1) >= place:
                raise Invalid(f"job {other} does not exist; name jobs that do", field="after")


def cancelled_on_arrival(
    jobs: Iterable[AddedJob[Instant]], created: Container[JobId], states: Mapping[JobId, str]
) -> dict[Instant, dict[JobId, str]]:
    """The `created` jobs that need a success which is already impossible.

    `states` are those of awaited jobs that have ended. Returns by instant the cancel reasons.
    """
    result: dict[Instant, dict[JobId, str]] = defaultdict(dict)
    for job in jobs:
        lost = [other for other in job.after if is_lost(states.get(other))]
        if lost and job.id in created:
            result[job.created_at][job.id] = cause_of(lost[-1], states[lost[-1]])
    return result


class Cascade:
    """The consequences of ended jobs, as far as one transaction may write them.

    While there is a `level`, the caller reads at most `room` waits for its jobs, locks their
    dependents, and passes those that still wait to `take`. Then it applies the decisions.
    """

    def __init__(self, ended: Mapping[JobId, str], room: int = DEPENDENTS_MAX) -> None:
        self.level = dict(ended)
        """Ended jobs with their state, whose dependents are to be read next."""
        self.room = room
        self.met: list[Wait] = []
        """Waits that were met."""
        self.cancelled: dict[JobId, str] = {}
        """Cancelled dependents with their reasons."""
        self.unfinished: dict[JobId, str] = {}
        """Ended jobs that may have more dependents; another transaction continues with them."""

    def take(self, waits: Iterable[Wait], read: int) -> None:
        """Decide on the dependents of the level; `read` is how many waits were found for it."""
        doomed: dict[JobId, str] = {}
        for wait in waits:
            state = self.level[wait.awaits]
            if wait.any_end or not is_lost(state):
                self.met.append(wait)
            elif wait.job_id not in self.cancelled:
                doomed[wait.job_id] = JobState.CANCELLED
                self.cancelled[wait.job_id] = cause_of(wait.awaits, state)
        is_cut = read >= self.room
        self.room -= max(read, LEVEL_COST)
        if is_cut or self.room <= 0:
            self.unfinished = self.level | doomed if is_cut else doomed
            self.level = {}
        else:
            self.level = doomed

    def freed_waits(self) -> list[Wait]:
        """The waits that were met, of jobs that are not cancelled."""
        return [wait for wait in self.met if wait.job_id not in self.cancelled]
