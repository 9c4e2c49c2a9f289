"""The table of all operations, from which every interface is generated."""

from collections.abc import Awaitable, Callable
from typing import Any, Final, Generic, Literal, TypeVar

import msgspec

from onbeat.model.limits import BULK_REQUEST_BYTES_MAX, REQUEST_BYTES_MAX
from onbeat.model.principal import Scope
from onbeat.operations import (
    audit,
    dead_letters,
    events,
    explain,
    forecasts,
    jobs,
    keys,
    queues,
    recurrences,
    remote_workers,
    schedules,
    secrets,
    stats,
    workers,
)
from onbeat.operations.context import OperationContext
from onbeat.wire.access import (
    AuditListAnswer,
    CreatedKey,
    CreateKey,
    KeyByName,
    KeysAnswer,
    ListAudit,
)
from onbeat.wire.dead_letters import DeadLetterDetail, DeadLettersAnswer, Replayed
from onbeat.wire.events import EventsAnswer
from onbeat.wire.forecasts import AskForecast, ForecastAnswer
from onbeat.wire.jobs import JobInfo
from onbeat.wire.queues import QueueAnswer, QueuesAnswer, QueueState
from onbeat.wire.recurrences import Preview
from onbeat.wire.requests import (
    Backfill,
    Backfilled,
    CancelJob,
    ClaimJobs,
    Created,
    CreateSchedule,
    DeadLetterById,
    Enqueue,
    EnqueueAnswer,
    Explanation,
    JobById,
    JobsAnswer,
    LimitQueue,
    ListDeadLetters,
    ListEvents,
    ListJobs,
    ListQueues,
    ListSchedules,
    ListWorkers,
    Message,
    NoParams,
    PreviewRecurrence,
    PutResult,
    PutSchedule,
    QueueByName,
    RenewJob,
    ScheduleById,
    SchedulesAnswer,
    SettleJob,
    StartJob,
    Triggered,
    UpdateSchedule,
)
from onbeat.wire.schedules import ScheduleAnswer
from onbeat.wire.secrets import Reencrypt, ReencryptedAnswer
from onbeat.wire.stats import StatsAnswer
from onbeat.wire.worker_results import ClaimedAnswer, RenewedAnswer, SettledAnswer, WorkAnswer
from onbeat.wire.workers import WorkersAnswer

Request = TypeVar("Request")
Answer = TypeVar("Answer")
Method = Literal["GET", "POST", "PUT", "DELETE"]


class Operation(msgspec.Struct, Generic[Request, Answer], frozen=True, kw_only=True):
    """One operation and its HTTP form.

    `body` names the request field that the HTTP body fills; the other fields come from the path and
    the query. `former_path` still works but is undocumented. An answer whose `created` is false has
    status 200. The caller needs `scope`. With `takes_key` a request may have an idempotency key;
    `again` rebuilds its answer where none is stored.
    """

    name: str
    id: str
    summary: str
    function: Callable[[OperationContext, Request], Awaitable[Answer]]
    request: type[Request]
    answer: type[Answer]
    method: Method
    path: str
    former_path: str | None = None
    status: int = 200
    body: str | None = None
    body_required: bool = True
    body_bytes_max: int = REQUEST_BYTES_MAX
    scope: Scope
    takes_key: bool = False
    again: Callable[[OperationContext, Request], Awaitable[Answer]] | None = None

    @property
    def is_audited(self) -> bool:
        """Whether it is a change by operators or administrators, which is audited."""
        return self.scope in {Scope.OPERATE, Scope.ADMIN} and self.method != "GET"

    @property
    def noun(self) -> str:
        return self.name.split(".", 1)[0]


SCHEDULE_CREATE: Final = Operation(
    name="schedule.create",
    id="createSchedule",
    summary="Create a schedule",
    function=schedules.create,
    request=CreateSchedule,
    answer=Created,
    method="POST",
    path="/api/schedules",
    status=201,
    body="schedule",
    scope=Scope.OPERATE,
    takes_key=True,
)
SCHEDULE_LIST: Final = Operation(
    name="schedule.list",
    id="listSchedules",
    summary="List schedules, newest first",
    function=schedules.list_schedules,
    request=ListSchedules,
    answer=SchedulesAnswer,
    method="GET",
    path="/api/schedules",
    scope=Scope.READ,
)
SCHEDULE_PUT: Final = Operation(
    name="schedule.put",
    id="putSchedule",
    summary="Create or change the schedule with this key, so that it is as described",
    function=schedules.put,
    request=PutSchedule,
    answer=PutResult,
    method="PUT",
    path="/api/schedules-by-key/{key}",
    former_path="/api/schedules/by-key/{key}",
    status=201,
    body="schedule",
    scope=Scope.OPERATE,
)
SCHEDULE_SHOW: Final = Operation(
    name="schedule.show",
    id="getSchedule",
    summary="Show a schedule, with its next occurrence",
    function=schedules.show,
    request=ScheduleById,
    answer=ScheduleAnswer,
    method="GET",
    path="/api/schedules/{id}",
    scope=Scope.READ,
)
SCHEDULE_UPDATE: Final = Operation(
    name="schedule.update",
    id="updateSchedule",
    summary="Change the given fields of a schedule",
    function=schedules.update,
    request=UpdateSchedule,
    answer=Message,
    method="PUT",
    path="/api/schedules/{id}",
    body="changes",
    scope=Scope.OPERATE,
)
SCHEDULE_DELETE: Final = Operation(
    name="schedule.delete",
    id="deleteSchedule",
    summary="Delete a schedule and cancel its waiting jobs; its history stays readable",
    function=schedules.delete,
    request=ScheduleById,
    answer=Message,
    method="DELETE",
    path="/api/schedules/{id}",
    scope=Scope.OPERATE,
)
SCHEDULE_PAUSE: Final = Operation(
    name="schedule.pause",
    id="pauseSchedule",
    summary="Pause a schedule: its waiting jobs go, nothing new comes",
    function=schedules.pause,
    request=ScheduleById,
    answer=Message,
    method="POST",
    path="/api/schedules/{id}/pause",
    scope=Scope.OPERATE,
)
SCHEDULE_RESUME: Final = Operation(
    name="schedule.resume",
    id="resumeSchedule",
    summary="Resume a paused schedule from now on",
    function=schedules.resume,
    request=ScheduleById,
    answer=Message,
    method="POST",
    path="/api/schedules/{id}/resume",
    scope=Scope.OPERATE,
)
SCHEDULE_TRIGGER: Final = Operation(
    name="schedule.trigger",
    id="triggerSchedule",
    summary="Run a schedule's target once now, beside its calendar",
    function=schedules.trigger,
    request=ScheduleById,
    answer=Triggered,
    method="POST",
    path="/api/schedules/{id}/trigger",
    scope=Scope.OPERATE,
    takes_key=True,
)
SCHEDULE_BACKFILL: Final = Operation(
    name="schedule.backfill",
    id="backfillSchedule",
    summary="Run past occurrences that had no job; idempotent by occurrence",
    function=schedules.backfill,
    request=Backfill,
    answer=Backfilled,
    method="POST",
    path="/api/schedules/{id}/backfill",
    status=202,
    body="span",
    scope=Scope.OPERATE,
    takes_key=True,
)
SCHEDULE_PENDING: Final = Operation(
    name="schedule.events_pending",
    id="getPendingEvents",
    summary="Occurrences that have not ended, latest first",
    function=events.pending,
    request=ListEvents,
    answer=EventsAnswer,
    method="GET",
    path="/api/schedules/{id}/events/pending",
    scope=Scope.READ,
)
SCHEDULE_HISTORY: Final = Operation(
    name="schedule.events_history",
    id="getArchivedEvents",
    summary="Occurrences that have ended, latest first; also of a deleted schedule",
    function=events.history,
    request=ListEvents,
    answer=EventsAnswer,
    method="GET",
    path="/api/schedules/{id}/events/history",
    scope=Scope.READ,
)
RECURRENCE_PREVIEW: Final = Operation(
    name="recurrence.preview",
    id="previewRecurrence",
    summary="The next occurrences of a rule, in words and as instants",
    function=recurrences.preview,
    request=PreviewRecurrence,
    answer=Preview,
    method="POST",
    path="/api/recurrence/preview",
    body="recurrence",
    scope=Scope.READ,
)
SCHEDULE_FORECAST: Final = Operation(
    name="schedule.forecast",
    id="forecastSchedules",
    summary="How many fires every coming hour will see, over all active schedules",
    function=forecasts.show_forecast,
    request=AskForecast,
    answer=ForecastAnswer,
    method="GET",
    path="/api/forecast",
    scope=Scope.READ,
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
    request=JobById,
    answer=JobInfo,
    method="POST",
    path="/api/jobs/{id}/retry",
    scope=Scope.OPERATE,
    takes_key=True,
    again=jobs.retry_again,
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
DEAD_LIST: Final = Operation(
    name="dead.list",
    id="listDeadLetters",
    summary="List dead letters, newest first",
    function=dead_letters.list_dead_letters,
    request=ListDeadLetters,
    answer=DeadLettersAnswer,
    method="GET",
    path="/api/dead",
    scope=Scope.READ,
)
DEAD_SHOW: Final = Operation(
    name="dead.show",
    id="getDeadLetter",
    summary="Show a dead letter in full",
    function=dead_letters.show,
    request=DeadLetterById,
    answer=DeadLetterDetail,
    method="GET",
    path="/api/dead/{id}",
    scope=Scope.READ,
)
DEAD_REPLAY: Final = Operation(
    name="dead.replay",
    id="replayDeadLetter",
    summary="Replay a dead letter; it is deleted on success",
    function=dead_letters.replay,
    request=DeadLetterById,
    answer=Replayed,
    method="POST",
    path="/api/dead/{id}/replay",
    scope=Scope.OPERATE,
    takes_key=True,
)
DEAD_DELETE: Final = Operation(
    name="dead.delete",
    id="deleteDeadLetter",
    summary="Delete a dead letter",
    function=dead_letters.delete,
    request=DeadLetterById,
    answer=Message,
    method="DELETE",
    path="/api/dead/{id}",
    scope=Scope.OPERATE,
)
QUEUE_LIST: Final = Operation(
    name="queue.list",
    id="listQueues",
    summary="Queues that have live jobs, are paused or are limited",
    function=queues.list_queues,
    request=ListQueues,
    answer=QueuesAnswer,
    method="GET",
    path="/api/queues",
    scope=Scope.READ,
)
QUEUE_PAUSE: Final = Operation(
    name="queue.pause",
    id="pauseQueue",
    summary="Stop starting jobs of a queue",
    function=queues.pause_queue,
    request=QueueByName,
    answer=QueueState,
    method="POST",
    path="/api/queues/{name}/pause",
    scope=Scope.OPERATE,
)
QUEUE_RESUME: Final = Operation(
    name="queue.resume",
    id="resumeQueue",
    summary="Start jobs of a queue again",
    function=queues.resume_queue,
    request=QueueByName,
    answer=QueueState,
    method="POST",
    path="/api/queues/{name}/resume",
    scope=Scope.OPERATE,
)
QUEUE_LIMIT: Final = Operation(
    name="queue.limit",
    id="limitQueue",
    summary="Limit how many jobs of a queue run at once and how often they start",
    function=queues.limit_queue,
    request=LimitQueue,
    answer=QueueAnswer,
    method="PUT",
    path="/api/queues/{name}",
    body="limits",
    scope=Scope.OPERATE,
)
WORKER_LIST: Final = Operation(
    name="worker.list",
    id="listWorkers",
    summary="Workers, what they can run, what they run now and whether they are alive",
    function=workers.list_workers,
    request=ListWorkers,
    answer=WorkersAnswer,
    method="GET",
    path="/api/workers",
    scope=Scope.READ,
)
STATS_SHOW: Final = Operation(
    name="stats.show",
    id="getStats",
    summary="Counts of jobs and schedules by state",
    function=stats.show_stats,
    request=NoParams,
    answer=StatsAnswer,
    method="GET",
    path="/api/stats",
    scope=Scope.READ,
)
KEY_CREATE: Final = Operation(
    name="key.create",
    id="createKey",
    summary="Make a key; the answer is the only place where it is shown",
    function=keys.create,
    request=CreateKey,
    answer=CreatedKey,
    method="POST",
    path="/api/keys",
    status=201,
    body="key",
    scope=Scope.ADMIN,
)
KEY_LIST: Final = Operation(
    name="key.list",
    id="listKeys",
    summary="List the keys of the store, without the keys themselves",
    function=keys.list_keys,
    request=NoParams,
    answer=KeysAnswer,
    method="GET",
    path="/api/keys",
    scope=Scope.ADMIN,
)
KEY_REVOKE: Final = Operation(
    name="key.revoke",
    id="revokeKey",
    summary="Revoke a key: every process rejects it within seconds",
    function=keys.revoke,
    request=KeyByName,
    answer=Message,
    method="DELETE",
    path="/api/keys/{name}",
    scope=Scope.ADMIN,
)
SECRETS_ROTATE: Final = Operation(
    name="secrets.rotate",
    id="rotateSecrets",
    summary="Encrypt a part of what is stored with the current key",
    function=secrets.reencrypt,
    request=Reencrypt,
    answer=ReencryptedAnswer,
    method="POST",
    path="/api/secrets/rotate",
    body="part",
    body_required=False,
    scope=Scope.ADMIN,
)
AUDIT_LIST: Final = Operation(
    name="audit.list",
    id="listAudit",
    summary="Who changed what, newest first",
    function=audit.list_audit,
    request=ListAudit,
    answer=AuditListAnswer,
    method="GET",
    path="/api/audit",
    scope=Scope.ADMIN,
)

OPERATIONS: Final[tuple[Operation[Any, Any], ...]] = (
    SCHEDULE_CREATE,
    SCHEDULE_LIST,
    SCHEDULE_PUT,
    SCHEDULE_SHOW,
    SCHEDULE_UPDATE,
    SCHEDULE_DELETE,
    SCHEDULE_PAUSE,
    SCHEDULE_RESUME,
    SCHEDULE_TRIGGER,
    SCHEDULE_BACKFILL,
    SCHEDULE_PENDING,
    SCHEDULE_HISTORY,
    RECURRENCE_PREVIEW,
    SCHEDULE_FORECAST,
    JOB_ENQUEUE,
    JOB_LIST,
    JOB_SHOW,
    JOB_CANCEL,
    JOB_RETRY,
    JOB_WHY,
    JOB_CLAIM,
    JOB_START,
    JOB_RENEW,
    JOB_SETTLE,
    DEAD_LIST,
    DEAD_SHOW,
    DEAD_REPLAY,
    DEAD_DELETE,
    QUEUE_LIST,
    QUEUE_PAUSE,
    QUEUE_RESUME,
    QUEUE_LIMIT,
    WORKER_LIST,
    STATS_SHOW,
    KEY_CREATE,
    KEY_LIST,
    KEY_REVOKE,
    SECRETS_ROTATE,
    AUDIT_LIST,
)
OPERATIONS_BY_NAME: Final = {operation.name: operation for operation in OPERATIONS}
