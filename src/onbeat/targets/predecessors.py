"""The jobs that a running job came after, as its handler sees them."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import msgspec

from onbeat.model.ids import JobId
from onbeat.model.job import Job, JobState
from onbeat.model.target import lane_of

Decode = Callable[[str, bytes], Any]
"""The result of a job in a lane, from its JSON."""
NULL = msgspec.Raw(b"null")
NO_ARGS = msgspec.Raw(b"[]")
NO_KWARGS = msgspec.Raw(b"{}")


class PriorJob(msgspec.Struct, frozen=True, gc=False):
    """What a job that ended leaves for those that come after it, or that an event of it makes.

    Only the latter see its arguments.
    """

    id: JobId
    name: str | None
    lane: str
    state: JobState
    reason: str | None
    error: str | None
    packed: msgspec.Raw = NULL
    args: msgspec.Raw = NO_ARGS
    kwargs: msgspec.Raw = NO_KWARGS


def earlier_jobs(job: Job, stored: Mapping[JobId, Job]) -> tuple[PriorJob, ...]:
    """The jobs that this one came after and that are still stored, in its order."""
    return tuple(earlier_job(stored[id]) for id in job.after if id in stored)


def earlier_job(job: Job) -> PriorJob:
    return PriorJob(
        id=job.id,
        name=job.name,
        lane=lane_of(job.target),
        state=job.state,
        reason=job.reason,
        error=job.error,
        packed=NULL if job.result is None else job.result,
    )


def decode_plain(_lane: str, packed: bytes) -> Any:
    return msgspec.json.decode(packed)


class Predecessor:
    """A job that this one came after. `result` is None unless it succeeded with one."""

    def __init__(self, ended: PriorJob, decode: Decode) -> None:
        self.id = ended.id
        self.name = ended.name
        self.state = ended.state
        self.reason = ended.reason
        self.error = ended.error
        self._ended = ended
        self._decode = decode

    def __repr__(self) -> str:
        return f"Predecessor({self.name or self.id!r}, {self.state})"

    @property
    def result(self) -> Any:
        """In the type that its task declares, where this process knows the task."""
        packed = bytes(self._ended.packed)
        return None if packed == bytes(NULL) else self._decode(self._ended.lane, packed)


class Predecessors(Mapping[str, Predecessor]):
    """By name, and by id where one has no name. An id finds those with a name too.

    Of several with one name, which come from several requests, the first has it.
    """

    def __init__(self, ended: Sequence[PriorJob], decode: Decode = decode_plain) -> None:
        jobs = [Predecessor(one, decode) for one in ended]
        self._by_id = {str(one.id): one for one in jobs}
        self._by_key: dict[str, Predecessor] = {}
        for one in jobs:
            key = one.id if one.name is None or one.name in self._by_key else one.name
            self._by_key[key] = one

    def __getitem__(self, key: str) -> Predecessor:
        found = self._by_key.get(key) or self._by_id.get(key)
        if found is None:
            known = ", ".join(self._by_key) or "none"
            raise KeyError(
                f"this job does not come after {key!r}, or it was pruned; known: {known}"
            )
        return found

    def __iter__(self) -> Iterator[str]:
        return iter(self._by_key)

    def __len__(self) -> int:
        return len(self._by_key)
