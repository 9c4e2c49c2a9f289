"""The leases that a worker has handed back last."""

from onbeat.model.ids import JobId, Token
from onbeat.model.job import Job
from onbeat.model.limits import HANDED_BACK_KEPT

Lease = tuple[JobId, Token]


class HandedBack:
    """Remembers leases, since the answer that brings one here may come after it was handed back.

    Its job may have run elsewhere by then, and must not begin. The last `HANDED_BACK_KEPT` count.
    """

    def __init__(self) -> None:
        self.leases: dict[Lease, None] = {}

    def add(self, lease: Lease) -> None:
        self.leases[lease] = None
        if len(self.leases) > HANDED_BACK_KEPT:
            del self.leases[next(iter(self.leases))]

    def __bool__(self) -> bool:
        return bool(self.leases)

    def __contains__(self, job: Job) -> bool:
        return (job.id, job.token) in self.leases
