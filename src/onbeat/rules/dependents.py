"""The effects of a job's end on its dependents: which are freed, and which are cancelled.

A dependent needs a success, a failure or any end of another job. An end that it needs frees it; an
end that makes this impossible cancels it, and in turn its dependents. The search goes level by
level in a loop, since chains may be of any length.
"""

from collections import defaultdict
from collections.abc import Container, Iterable, Mapping, Sequence
from typing import Final, Protocol, Self, TypeVar

import msgspec
from msgspec.structs import replace

from onbeat.model.errors import Invalid
from onbeat.model.ids import JobId
from onbeat.model.job import Edge, Job, JobState
from onbeat.model.limits import DEPENDENTS_MAX
from onbeat.rules.flows import after_flow

LEVEL_COST: Final = 4
"""The cost of a level in dependents: it takes a round trip to the store."""


Instant = TypeVar("Instant")
Instant_co = TypeVar("Instant_co", covariant=True)


class AddedJob(Protocol[Instant_co]):
    """A job to be added, and the jobs that it comes after."""

    @property
    def id(self) -> JobId: ...

    @property
    def after(self) -> Sequence[JobId]: ...

    @property
    def created_at(self) -> Instant_co: ...

    @property
    def flow(self) -> JobId | None: ...

    @property
    def awaits_flow(self) -> JobId | None: ...

    def edge_to(self, other: JobId) -> Edge: ...


class UniqueJob(AddedJob[Instant_co], Protocol[Instant_co]):
    @property
    def unique(self) -> str | None: ...


class Wait(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """`job_id` waits for `awaits`, and needs the `wanted` end of it."""

    job_id: JobId
    awaits: JobId
    wanted: Edge


class Doom(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """Why a job is cancelled, and the job whose end was the cause."""

    reason: str
    cause_id: JobId | None = None


def freed(wanted: Edge, state: str) -> bool:
    """Whether this end is the wanted one; else it cancels the job that wants it."""
    match wanted:
        case Edge.SUCCESS:
            return state == JobState.SUCCEEDED
        case Edge.FAILURE:
            return state == JobState.FAILED
        case Edge.END:
            return True


ENDS: Final = {
    JobState.SUCCEEDED: "succeeded",
    JobState.FAILED: "failed",
    JobState.CANCELLED: "was cancelled",
}


def doom_of(id: JobId, state: str) -> Doom:
    """The cancellation of a job that needed another end of this one."""
    return Doom(f"job {id} it waited for {ENDS[JobState(state)]}", id)


def doom_of_flow(flow: JobId, state: str) -> Doom:
    """The cancellation of a job that needed another end of this flow."""
    return Doom(f"flow {flow} it waited for {ENDS[JobState(state)]}", flow)


def end_of_flow(jobs: Iterable[Job]) -> JobState:
    """How a flow ended whose jobs have ended.

    It failed if one of them did; it was cancelled if one of them was, other than by the end of
    another job, which is how a flow takes its ways.
    """
    end = JobState.SUCCEEDED
    for job in jobs:
        if job.state is JobState.FAILED:
            return job.state
        if job.state is JobState.CANCELLED and job.cause_id is None:
            end = job.state
    return end


def is_lost(state: str | None) -> bool:
    """Whether the job ended without success, so that it may be retried."""
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


class Holders(msgspec.Struct, frozen=True):
    """The jobs that run in place of those that were not added, as they hold the unique keys.

    `of_jobs` has the holder for each job that was not added; `of_flows` those in place of members,
    where they are not of the flow themselves, and do not come after it.
    """

    of_jobs: Mapping[JobId, JobId] = {}
    of_flows: Mapping[JobId, Sequence[JobId]] = {}

    @classmethod
    def among(cls, flows: Mapping[JobId, JobId | None], of_jobs: Mapping[JobId, JobId]) -> Self:
        """`flows` are those of all jobs of the call, with the ones that were not added."""
        of_flows: dict[JobId, dict[JobId, None]] = defaultdict(dict)
        for id, holder in of_jobs.items():
            flow = flows.get(id)
            if flow is not None and flows.get(holder) not in {flow, after_flow(flow)}:
                of_flows[flow][holder] = None
        return cls(of_jobs, {flow: tuple(found) for flow, found in of_flows.items()})

    def outside(self, job: AddedJob[object]) -> Sequence[JobId]:
        """The holders that the job waits for with its flow.

        One that needs a failure waits for none of them: it runs where any of all fails, and by
        edges it would where each of them does.
        """
        flow = job.awaits_flow
        if flow is None or job.edge_to(flow) is Edge.FAILURE:
            return ()
        return self.of_flows.get(flow, ())

    def concern(self, job: AddedJob[object]) -> bool:
        """Whether the job waits for a holder."""
        return bool(self.outside(job)) or not self.of_jobs.keys().isdisjoint(job.after)

    def without(self, gone: Container[JobId]) -> Self:
        """The keys of jobs that are gone may be held still; no flow can wait for these."""
        of_flows = {
            flow: [one for one in found if one not in gone] for flow, found in self.of_flows.items()
        }
        return replace(self, of_flows=of_flows)


def after_holders(
    job: AddedJob[object], holders: Holders
) -> tuple[tuple[JobId, ...], dict[JobId, Edge] | None]:
    """`after` and `edges` of a job, with `holders` in place of jobs that were not added.

    The key of such a job was held, and it is the holder that runs; the job needs the end of it that
    it needs of the other, or of the flow. Raises `Invalid` if it then needs two ends of one job
    that it names.
    """
    ends: dict[JobId, Edge] = {}
    for other in job.after:
        wanted, holder = job.edge_to(other), holders.of_jobs.get(other, other)
        if ends.setdefault(holder, wanted) is not wanted:
            raise Invalid(
                f"a job cannot need two ends of job {holder}, which holds the unique key of one"
                " that it is to come after",
                field="after",
            )
    flow = job.awaits_flow
    for holder in holders.outside(job):
        if flow is not None and ends.get(holder, Edge.END) is Edge.END:
            ends[holder] = job.edge_to(flow)
    named = ends if flow is None else {**ends, flow: job.edge_to(flow)}
    edges: dict[JobId, Edge] = {
        id: wanted for id, wanted in named.items() if wanted is not Edge.SUCCESS
    }
    return tuple(ends), edges or None


def cancelled_on_arrival(
    jobs: Iterable[AddedJob[Instant]], created: Container[JobId], states: Mapping[JobId, str]
) -> dict[Instant, dict[JobId, Doom]]:
    """The `created` jobs that need an end which is already impossible.

    `states` are those of awaited jobs that have ended. Returns the cancellations by instant.
    """
    result: dict[Instant, dict[JobId, Doom]] = defaultdict(dict)
    for job in jobs:
        doom = unmet(job, states)
        if doom is not None and job.id in created:
            result[job.created_at][job.id] = doom
    return result


def unmet(job: AddedJob[object], states: Mapping[JobId, str]) -> Doom | None:
    """The cancellation of a job that needs another end of one of these; None if it may go on."""
    lost = [
        other
        for other in job.after
        if other in states and not freed(job.edge_to(other), states[other])
    ]
    return doom_of(lost[-1], states[lost[-1]]) if lost else None


def flows_of(jobs: Iterable[AddedJob[object]]) -> Mapping[JobId, JobId | None]:
    return {job.id: job.flow for job in jobs}


def repeats_a_key(jobs: Sequence[UniqueJob[object]]) -> bool:
    """Whether a job has the unique key of an earlier one that comes after others."""
    keys: set[str] = set()
    for job in jobs:
        if job.unique is not None:
            if job.unique in keys:
                return True
            if job.after or job.awaits_flow is not None:
                keys.add(job.unique)
    return False


def places_to_cut(jobs: Sequence[UniqueJob[object]], states: Mapping[JobId, str]) -> Sequence[int]:
    """Where jobs that are added at once have to be cut, to be added part by part.

    One that is cancelled as it is added frees its unique key, so that a later one may be added. So
    a later one begins a part where the earlier one needs an end that `states` make impossible, or
    comes after one of the jobs that may not be added or may be cancelled itself.
    """
    doubtful: set[JobId] = set()
    keys: set[str] = set()
    places: list[int] = []
    for place, job in enumerate(jobs):
        if job.unique in keys:
            places.append(place)
            keys.clear()
        may_end = (
            unmet(job, states) is not None
            or not doubtful.isdisjoint(job.after)
            or job.awaits_flow in doubtful
        )
        if may_end and job.unique is not None:
            keys.add(job.unique)
        if may_end or job.unique is not None:
            doubtful |= {job.id} if job.flow is None else {job.id, job.flow, after_flow(job.flow)}
    return places


def causes_in(jobs: Iterable[Job]) -> list[JobId]:
    """What may have cancelled others: the end of each of the jobs, and that of its flow."""
    ids = (id for job in jobs for id in (job.id, job.flow) if id is not None)
    return list(dict.fromkeys(ids))


def with_cause(job: Job) -> str:
    """What the cancelled job comes back with."""
    kind = "flow" if job.cause_id == job.awaits_flow else "job"
    return f"with {kind} {job.cause_id}"


def stay_cancelled(candidates: Sequence[Job], states: Mapping[JobId, str]) -> dict[JobId, Doom]:
    """Which candidates for another try cannot have one, as another end of theirs is impossible.

    `states` are those of ended jobs that the candidates come after, without the candidates.
    """
    coming_after: dict[JobId, list[Job]] = defaultdict(list)
    for job in candidates:
        for other in job.after:
            coming_after[other].append(job)
    stay = {job.id: doom for job in candidates if (doom := unmet(job, states)) is not None}
    level = list(stay)
    while level:
        id = level.pop()
        for job in coming_after.get(id, ()):
            if job.id not in stay and not freed(job.edge_to(id), JobState.CANCELLED):
                stay[job.id] = doom_of(id, JobState.CANCELLED)
                level.append(job.id)
    return stay


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
        self.cancelled: dict[JobId, Doom] = {}
        """Cancelled dependents with their reasons."""
        self.unfinished: dict[JobId, str] = {}
        """Ended jobs that may have more dependents; another transaction continues with them."""

    def take(self, waits: Iterable[Wait], read: int) -> None:
        """Decide on the dependents of the level; `read` is how many waits were found for it."""
        doomed: dict[JobId, str] = {}
        for wait in waits:
            state = self.level[wait.awaits]
            if freed(wait.wanted, state):
                self.met.append(wait)
            elif wait.job_id not in self.cancelled:
                doomed[wait.job_id] = JobState.CANCELLED
                self.cancelled[wait.job_id] = doom_of(wait.awaits, state)
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
