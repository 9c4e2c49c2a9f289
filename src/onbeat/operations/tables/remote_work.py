"""Work of clients that hold a lease themselves."""

from typing import Any, Final

from onbeat.model.principal import Scope
from onbeat.operations import remote_workers
from onbeat.operations.tables.operation import Operation
from onbeat.wire.requests import ClaimJobs, RenewJob, SettleJob, StartJob
from onbeat.wire.worker_results import ClaimedAnswer, RenewedAnswer, SettledAnswer, WorkAnswer

JOB_CLAIM: Final = Operation(
    name="job.claim",
    id="claimJobs",
    summary="Claim due jobs for a remote worker, each with a lease",
    function=remote_workers.claim,
    request=ClaimJobs,
    answer=ClaimedAnswer,
    method="POST",
    path="/api/jobs/claim",
    body="claim",
    scope=Scope.WORK,
)

JOB_START: Final = Operation(
    name="job.start",
    id="startJob",
    summary="Fetch a job that was announced without its arguments",
    function=remote_workers.start,
    request=StartJob,
    answer=WorkAnswer,
    method="POST",
    path="/api/jobs/{id}/start",
    body="lease",
    scope=Scope.WORK,
)

JOB_RENEW: Final = Operation(
    name="job.renew",
    id="renewJob",
    summary="Renew the lease of a job of a remote worker",
    function=remote_workers.renew,
    request=RenewJob,
    answer=RenewedAnswer,
    method="POST",
    path="/api/jobs/{id}/renew",
    body="lease",
    scope=Scope.WORK,
)

JOB_SETTLE: Final = Operation(
    name="job.settle",
    id="settleJob",
    summary="Settle a job of a remote worker",
    function=remote_workers.settle,
    request=SettleJob,
    answer=SettledAnswer,
    method="POST",
    path="/api/jobs/{id}/settle",
    body="report",
    scope=Scope.WORK,
)

OPERATIONS: Final[tuple[Operation[Any, Any], ...]] = (
    JOB_CLAIM,
    JOB_START,
    JOB_RENEW,
    JOB_SETTLE,
)
