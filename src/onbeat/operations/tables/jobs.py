"""Jobs: made, listed, changed one by one or in bulk."""

from typing import Any, Final

from onbeat.model.limits import BULK_REQUEST_BYTES_MAX
from onbeat.model.principal import Scope
from onbeat.operations import bulks, explain, job_logs, jobs, notifications
from onbeat.operations.tables.operation import Operation
from onbeat.wire.bulks import BulkById, BulkCount, BulkInfo, BulksAnswer, ListBulks, MakeBulk
from onbeat.wire.job_logs import JobLogAnswer, ShowJobLog
from onbeat.wire.jobs import JobInfo
from onbeat.wire.notifications import NotificationAnswer, SendNotification
from onbeat.wire.requests import (
    CancelJob,
    Enqueue,
    EnqueueAnswer,
    Explanation,
    JobById,
    JobsAnswer,
    ListJobs,
    RescheduleJob,
    RetryJob,
)

JOB_ENQUEUE: Final = Operation(
    name="job.enqueue",
    id="enqueueJobs",
    summary="Enqueue one job, or many in one write",
    function=jobs.enqueue,
    request=Enqueue,
    answer=EnqueueAnswer,
    method="POST",
    path="/api/jobs",
    status=201,
    body="jobs",
    body_bytes_max=BULK_REQUEST_BYTES_MAX,
    scope=Scope.SUBMIT,
    takes_key=True,
)

NOTIFICATION_SEND: Final = Operation(
    name="notification.send",
    id="sendNotification",
    summary="Tell one or many people: a job for each recipient, all in one write",
    function=notifications.send,
    request=SendNotification,
    answer=NotificationAnswer,
    method="POST",
    path="/api/notifications",
    status=201,
    body="notification",
    scope=Scope.SUBMIT,
    takes_key=True,
)

JOB_LIST: Final = Operation(
    name="job.list",
    id="listJobs",
    summary="List jobs, newest first",
    function=jobs.list_jobs,
    request=ListJobs,
    answer=JobsAnswer,
    method="GET",
    path="/api/jobs",
    scope=Scope.READ,
)

JOB_BULK: Final = Operation(
    name="job.bulk",
    id="makeBulk",
    summary="Retry or cancel all jobs that match, in the background; a dry run counts them",
    function=bulks.make_bulk,
    request=MakeBulk,
    answer=BulkCount,
    method="POST",
    path="/api/jobs/bulk",
    status=201,
    body="bulk",
    scope=Scope.OPERATE,
    takes_key=True,
    keeps_audit=True,
)

BULK_LIST: Final = Operation(
    name="bulk.list",
    id="listBulks",
    summary="List bulks, newest first",
    function=bulks.list_bulks,
    request=ListBulks,
    answer=BulksAnswer,
    method="GET",
    path="/api/bulks",
    scope=Scope.READ,
)

BULK_SHOW: Final = Operation(
    name="bulk.show",
    id="getBulk",
    summary="Show how far a bulk is",
    function=bulks.show,
    request=BulkById,
    answer=BulkInfo,
    method="GET",
    path="/api/bulks/{id}",
    scope=Scope.READ,
)

BULK_STOP: Final = Operation(
    name="bulk.stop",
    id="stopBulk",
    summary="Stop a bulk; what it has done stays",
    function=bulks.stop,
    request=BulkById,
    answer=BulkInfo,
    method="POST",
    path="/api/bulks/{id}/stop",
    scope=Scope.OPERATE,
)

JOB_SHOW: Final = Operation(
    name="job.show",
    id="getJob",
    summary="Show a job with its attempts and its history",
    function=jobs.show,
    request=JobById,
    answer=JobInfo,
    method="GET",
    path="/api/jobs/{id}",
    scope=Scope.READ,
)

JOB_CANCEL: Final = Operation(
    name="job.cancel",
    id="cancelJob",
    summary="Cancel a waiting job, or ask a running one to stop",
    function=jobs.cancel,
    request=CancelJob,
    answer=JobInfo,
    method="POST",
    path="/api/jobs/{id}/cancel",
    body="why",
    body_required=False,
    scope=Scope.OPERATE,
)

JOB_RETRY: Final = Operation(
    name="job.retry",
    id="retryJob",
    summary="Let a failed or cancelled job wait again, due now",
    function=jobs.retry,
    request=RetryJob,
    answer=JobInfo,
    method="POST",
    path="/api/jobs/{id}/retry",
    body="how",
    body_required=False,
    scope=Scope.OPERATE,
    takes_key=True,
    again=jobs.retry_again,
)

JOB_RESCHEDULE: Final = Operation(
    name="job.reschedule",
    id="rescheduleJob",
    summary="Let a waiting job be due at another time",
    function=jobs.reschedule,
    request=RescheduleJob,
    answer=JobInfo,
    method="POST",
    path="/api/jobs/{id}/reschedule",
    body="due",
    scope=Scope.OPERATE,
)

JOB_WHY: Final = Operation(
    name="job.why",
    id="explainJob",
    summary="Why a job does not run, what it waits for, and when it may run",
    function=explain.explain,
    request=JobById,
    answer=Explanation,
    method="GET",
    path="/api/jobs/{id}/why",
    scope=Scope.READ,
)

JOB_LOG: Final = Operation(
    name="job.log",
    id="getJobLog",
    summary="What the handler of a job logged, in the order of the lines",
    function=job_logs.show,
    request=ShowJobLog,
    answer=JobLogAnswer,
    method="GET",
    path="/api/jobs/{id}/log",
    scope=Scope.READ,
)

OPERATIONS: Final[tuple[Operation[Any, Any], ...]] = (
    JOB_ENQUEUE,
    NOTIFICATION_SEND,
    JOB_LIST,
    JOB_BULK,
    BULK_LIST,
    BULK_SHOW,
    BULK_STOP,
    JOB_SHOW,
    JOB_CANCEL,
    JOB_RETRY,
    JOB_RESCHEDULE,
    JOB_WHY,
    JOB_LOG,
)
