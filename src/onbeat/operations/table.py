"""The table of all operations, from which every interface is generated."""

from collections.abc import Awaitable, Callable
from typing import Any, Final, Generic, Literal, TypeVar

import msgspec

from onbeat.model.limits import BULK_REQUEST_BYTES_MAX, REQUEST_BYTES_MAX
from onbeat.model.principal import Scope
from onbeat.operations import (
    alerts,
    audit,
    backfills,
    bulks,
    dead_letter_groups,
    dead_letters,
    edits,
    events,
    explain,
    failures,
    flows,
    forecasts,
    job_logs,
    jobs,
    keys,
    notifications,
    occurrences,
    outcomes,
    pulses,
    queues,
    recurrences,
    remote_workers,
    schedules,
    secrets,
    settings,
    stats,
    timelines,
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
from onbeat.wire.alerts import (
    AlertsAnswer,
    CreateSilence,
    ListAlerts,
    SilenceAnswer,
    SilenceById,
)
from onbeat.wire.bulks import (
    BulkById,
    BulkCount,
    BulkInfo,
    BulksAnswer,
    ListBulks,
    MakeBulk,
)
from onbeat.wire.cloud_events import EVENT_BODY, BodyReader
from onbeat.wire.dead_letters import DeadLetterDetail, DeadLettersAnswer, Replayed
from onbeat.wire.events import (
    EventById,
    EventInfo,
    EventListAnswer,
    FindEvents,
    PublishAnswer,
    PublishEvents,
)
from onbeat.wire.failures import (
    DeadLetterGroupById,
    DeadLetterGroupsAnswer,
    FailureById,
    FailureInfo,
    FailuresAnswer,
    GroupReplayed,
    ListDeadLetterGroups,
    ListFailures,
    NoteFailure,
    ReplayFailures,
    SilenceFailure,
)
from onbeat.wire.flows import FlowAnswer, FlowChange
from onbeat.wire.forecasts import AskForecast, ForecastAnswer
from onbeat.wire.job_logs import JobLogAnswer, ShowJobLog
from onbeat.wire.jobs import JobInfo
from onbeat.wire.notifications import NotificationAnswer, SendNotification
from onbeat.wire.occurrences import EventsAnswer
from onbeat.wire.outcomes import (
    DiffPut,
    DiffSchedule,
    ListOccurrences,
    OccurrencesAnswer,
    ScheduleDiff,
)
from onbeat.wire.pulses import AskPulses, PulsesAnswer, QueueStartsAnswer
from onbeat.wire.queues import QueueAnswer, QueueDetail, QueuesAnswer, QueueState
from onbeat.wire.recurrences import Preview
from onbeat.wire.requests import (
    Backfill,
    Backfilled,
    CancelFlow,
    CancelJob,
    ClaimJobs,
    Created,
    CreateSchedule,
    DeadLetterById,
    Enqueue,
    EnqueueAnswer,
    Explanation,
    FlowById,
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
    PauseQueue,
    PreviewRecurrence,
    PreviewSchedule,
    PutResult,
    PutSchedule,
    QueueByName,
    RenewJob,
    RescheduleJob,
    RetryJob,
    ScheduleById,
    SchedulesAnswer,
    SettleJob,
    ShowFlow,
    StartJob,
    Triggered,
    UpdateSchedule,
)
from onbeat.wire.schedules import ScheduleAnswer
from onbeat.wire.secrets import Reencrypt, ReencryptedAnswer
from onbeat.wire.settings import SessionsAnswer, SettingsAnswer
from onbeat.wire.stats import StatsAnswer
from onbeat.wire.timeline import ShowTimeline, TimelineAnswer
from onbeat.wire.worker_results import ClaimedAnswer, RenewedAnswer, SettledAnswer, WorkAnswer
from onbeat.wire.workers import WorkersAnswer

Request = TypeVar("Request")
Answer = TypeVar("Answer")
Method = Literal["GET", "POST", "PUT", "DELETE"]


class Operation(msgspec.Struct, Generic[Request, Answer], frozen=True, kw_only=True):
    """One operation and its HTTP form.

    `body` names the request field that the HTTP body fills; the other fields come from the path and
    the query. `former_path` still works but is undocumented. An answer whose `created` is false has
    status 200 instead of 201. `reader` reads a body that has several forms. The caller needs
    `scope`. With `keeps_audit` it writes its audit record itself. With `takes_key` a request may
    have an idempotency key; `again` rebuilds its answer where none is stored.
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
    reader: BodyReader | None = None
    scope: Scope
    takes_key: bool = False
    keeps_audit: bool = False
    again: Callable[[OperationContext, Request], Awaitable[Answer]] | None = None

    @property
    def is_audited(self) -> bool:
        """Whether it is a change by operators or administrators, which is audited."""
        is_change = self.scope in {Scope.OPERATE, Scope.ADMIN} and self.method != "GET"
        return is_change and not self.keeps_audit

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
SCHEDULE_DIFF: Final = Operation(
    name="schedule.diff",
    id="diffSchedule",
    summary="What an update with the same body would change; changes nothing",
    function=edits.diff,
    request=DiffSchedule,
    answer=ScheduleDiff,
    method="POST",
    path="/api/schedules/{id}/diff",
    body="changes",
    scope=Scope.READ,
)
SCHEDULE_PUT_DIFF: Final = Operation(
    name="schedule.put_diff",
    id="diffPutSchedule",
    summary="What a PUT of the schedule with this key would change; changes nothing",
    function=edits.put_diff,
    request=DiffPut,
    answer=ScheduleDiff,
    method="POST",
    path="/api/schedules-by-key/{key}/diff",
    body="schedule",
    scope=Scope.READ,
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
    summary="Run past occurrences that had no job, or count them; idempotent by occurrence",
    function=backfills.backfill,
    request=Backfill,
    answer=Backfilled,
    method="POST",
    path="/api/schedules/{id}/backfill",
    status=202,
    body="span",
    scope=Scope.OPERATE,
    takes_key=True,
)
SCHEDULE_PREVIEW: Final = Operation(
    name="schedule.preview",
    id="previewSchedule",
    summary="The next occurrences of a schedule, in words and as instants",
    function=schedules.preview,
    request=PreviewSchedule,
    answer=Preview,
    method="GET",
    path="/api/schedules/{id}/preview",
    scope=Scope.READ,
)
SCHEDULE_PENDING: Final = Operation(
    name="schedule.events_pending",
    id="getPendingEvents",
    summary="Occurrences that have not ended, latest first",
    function=occurrences.pending,
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
    function=occurrences.history,
    request=ListEvents,
    answer=EventsAnswer,
    method="GET",
    path="/api/schedules/{id}/events/history",
    scope=Scope.READ,
)
SCHEDULE_OCCURRENCES: Final = Operation(
    name="schedule.occurrences",
    id="listOccurrences",
    summary="What became of a schedule's occurrences and why, latest first",
    function=outcomes.list_occurrences,
    request=ListOccurrences,
    answer=OccurrencesAnswer,
    method="GET",
    path="/api/schedules/{id}/occurrences",
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
TIMELINE_SHOW: Final = Operation(
    name="timeline.show",
    id="showTimeline",
    summary="What schedules did and will do, on one axis of time",
    function=timelines.show_timeline,
    request=ShowTimeline,
    answer=TimelineAnswer,
    method="GET",
    path="/api/timeline",
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
FLOW_SHOW: Final = Operation(
    name="flow.show",
    id="getFlow",
    summary="Show a flow: its state, counts, jobs and edges",
    function=flows.show,
    request=ShowFlow,
    answer=FlowAnswer,
    method="GET",
    path="/api/flows/{id}",
    scope=Scope.READ,
)
FLOW_CANCEL: Final = Operation(
    name="flow.cancel",
    id="cancelFlow",
    summary="Cancel the waiting jobs of a flow, and ask the running ones to stop",
    function=flows.cancel,
    request=CancelFlow,
    answer=FlowChange,
    method="POST",
    path="/api/flows/{id}/cancel",
    body="why",
    body_required=False,
    scope=Scope.OPERATE,
)
FLOW_RETRY: Final = Operation(
    name="flow.retry",
    id="retryFlow",
    summary="Let the failed and cancelled jobs of a flow wait again",
    function=flows.retry,
    request=FlowById,
    answer=FlowChange,
    method="POST",
    path="/api/flows/{id}/retry",
    scope=Scope.OPERATE,
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
EVENT_PUBLISH: Final = Operation(
    name="event.publish",
    id="publishEvents",
    summary="Store an event, or many in one write; each is stored once for its source and id",
    function=events.publish,
    request=PublishEvents,
    answer=PublishAnswer,
    method="POST",
    path="/api/events",
    status=202,
    body="event",
    body_bytes_max=BULK_REQUEST_BYTES_MAX,
    reader=EVENT_BODY,
    scope=Scope.SUBMIT,
    takes_key=True,
)
EVENT_LIST: Final = Operation(
    name="event.list",
    id="listEvents",
    summary="List events, newest first",
    function=events.list_events,
    request=FindEvents,
    answer=EventListAnswer,
    method="GET",
    path="/api/events",
    scope=Scope.READ,
)
EVENT_SHOW: Final = Operation(
    name="event.show",
    id="getEvent",
    summary="Show an event, and the jobs that it made or why none",
    function=events.show,
    request=EventById,
    answer=EventInfo,
    method="GET",
    path="/api/events/{id}",
    scope=Scope.READ,
)
EVENT_REPLAY: Final = Operation(
    name="event.replay",
    id="replayEvent",
    summary="Decide again what an event makes; jobs that it made stay",
    function=events.replay,
    request=EventById,
    answer=Message,
    method="POST",
    path="/api/events/{id}/replay",
    status=202,
    scope=Scope.OPERATE,
)
FAILURE_LIST: Final = Operation(
    name="failure.list",
    id="listFailures",
    summary="Failures that are alike, by fault",
    function=failures.list_failures,
    request=ListFailures,
    answer=FailuresAnswer,
    method="GET",
    path="/api/failures",
    scope=Scope.READ,
)
FAILURE_SHOW: Final = Operation(
    name="failure.show",
    id="getFailure",
    summary="Show a fault with its newest jobs, and attempts by hour",
    function=failures.show,
    request=FailureById,
    answer=FailureInfo,
    method="GET",
    path="/api/failures/{fault}",
    scope=Scope.READ,
)
FAILURE_SILENCE: Final = Operation(
    name="failure.silence",
    id="silenceFailure",
    summary="Leave a fault out of what needs somebody, for a time",
    function=failures.silence,
    request=SilenceFailure,
    answer=FailureInfo,
    method="POST",
    path="/api/failures/{fault}/silence",
    body="silence",
    body_required=True,
    scope=Scope.OPERATE,
)
FAILURE_NOTE: Final = Operation(
    name="failure.note",
    id="noteFailure",
    summary="Write a note about a fault for others who look",
    function=failures.write_note,
    request=NoteFailure,
    answer=FailureInfo,
    method="PUT",
    path="/api/failures/{fault}/note",
    body="note",
    body_required=True,
    scope=Scope.OPERATE,
)
FAILURE_REPLAY: Final = Operation(
    name="failure.replay",
    id="replayFailures",
    summary="Retry the failed jobs of a fault",
    function=failures.replay,
    request=ReplayFailures,
    answer=GroupReplayed,
    method="POST",
    path="/api/failures/{fault}/replay",
    body="replay",
    body_required=False,
    scope=Scope.OPERATE,
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
DEAD_GROUPS: Final = Operation(
    name="dead.groups",
    id="listDeadLetterGroups",
    summary="Dead letters by source and reason",
    function=dead_letter_groups.list_groups,
    request=ListDeadLetterGroups,
    answer=DeadLetterGroupsAnswer,
    method="GET",
    path="/api/dead-groups",
    scope=Scope.READ,
)
DEAD_REPLAY_GROUP: Final = Operation(
    name="dead.replay_group",
    id="replayDeadLetterGroup",
    summary="Replay the dead letters of a group",
    function=dead_letter_groups.replay_group,
    request=DeadLetterGroupById,
    answer=GroupReplayed,
    method="POST",
    path="/api/dead-groups/{group}/replay",
    body="replay",
    body_required=False,
    scope=Scope.OPERATE,
)
DEAD_DELETE_GROUP: Final = Operation(
    name="dead.delete_group",
    id="deleteDeadLetterGroup",
    summary="Delete the dead letters of a group",
    function=dead_letter_groups.delete_group,
    request=DeadLetterGroupById,
    answer=GroupReplayed,
    method="POST",
    path="/api/dead-groups/{group}/delete",
    body="replay",
    body_required=False,
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
QUEUE_SHOW: Final = Operation(
    name="queue.show",
    id="getQueue",
    summary="Show a queue: its load, its limits, who paused it, and its groups",
    function=queues.show_queue,
    request=QueueByName,
    answer=QueueDetail,
    method="GET",
    path="/api/queues/{name}",
    scope=Scope.READ,
)
QUEUE_PAUSE: Final = Operation(
    name="queue.pause",
    id="pauseQueue",
    summary="Stop starting jobs of a queue",
    function=queues.pause_queue,
    request=PauseQueue,
    answer=QueueState,
    method="POST",
    path="/api/queues/{name}/pause",
    body="why",
    body_required=False,
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
ALERT_LIST: Final = Operation(
    name="alert.list",
    id="listAlerts",
    summary="What is wrong now, or was, and which alerts are silenced",
    function=alerts.list_alerts,
    request=ListAlerts,
    answer=AlertsAnswer,
    method="GET",
    path="/api/alerts",
    scope=Scope.READ,
)
ALERT_SILENCE: Final = Operation(
    name="alert.silence",
    id="silenceAlerts",
    summary="Tell no alerts of a kind for a while, as during maintenance",
    function=alerts.silence,
    request=CreateSilence,
    answer=SilenceAnswer,
    method="POST",
    path="/api/silences",
    status=201,
    body="silence",
    scope=Scope.OPERATE,
)
ALERT_UNSILENCE: Final = Operation(
    name="alert.unsilence",
    id="endSilence",
    summary="End a silence; what it kept quiet and still holds is told",
    function=alerts.end_silence,
    request=SilenceById,
    answer=Message,
    method="DELETE",
    path="/api/silences/{id}",
    scope=Scope.OPERATE,
)
PULSE_SHOW: Final = Operation(
    name="pulse.show",
    id="getPulses",
    summary="Rates, lateness and depths of the last hour, day or week",
    function=pulses.show_pulses,
    request=AskPulses,
    answer=PulsesAnswer,
    method="GET",
    path="/api/pulses",
    scope=Scope.READ,
)
PULSE_QUEUES: Final = Operation(
    name="pulse.queues",
    id="getQueuePulses",
    summary="How many attempts of each queue began in each minute of the last hour",
    function=pulses.show_queue_starts,
    request=NoParams,
    answer=QueueStartsAnswer,
    method="GET",
    path="/api/pulses/queues",
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
SESSION_LIST: Final = Operation(
    name="session.list",
    id="listSessions",
    summary="Sessions of the dashboard; each ends as a key of its name does",
    function=settings.list_sessions,
    request=NoParams,
    answer=SessionsAnswer,
    method="GET",
    path="/api/sessions",
    scope=Scope.ADMIN,
)
SETTINGS_SHOW: Final = Operation(
    name="settings.show",
    id="getSettings",
    summary="The settings of the process that answers, and where each was set",
    function=settings.show_settings,
    request=NoParams,
    answer=SettingsAnswer,
    method="GET",
    path="/api/settings",
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
    SCHEDULE_DIFF,
    SCHEDULE_PUT_DIFF,
    SCHEDULE_DELETE,
    SCHEDULE_PAUSE,
    SCHEDULE_RESUME,
    SCHEDULE_TRIGGER,
    SCHEDULE_BACKFILL,
    SCHEDULE_PREVIEW,
    SCHEDULE_PENDING,
    SCHEDULE_HISTORY,
    SCHEDULE_OCCURRENCES,
    RECURRENCE_PREVIEW,
    SCHEDULE_FORECAST,
    TIMELINE_SHOW,
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
    FLOW_SHOW,
    FLOW_CANCEL,
    FLOW_RETRY,
    JOB_CLAIM,
    JOB_START,
    JOB_RENEW,
    JOB_SETTLE,
    EVENT_PUBLISH,
    EVENT_LIST,
    EVENT_SHOW,
    EVENT_REPLAY,
    FAILURE_LIST,
    FAILURE_SHOW,
    FAILURE_SILENCE,
    FAILURE_NOTE,
    FAILURE_REPLAY,
    DEAD_LIST,
    DEAD_SHOW,
    DEAD_REPLAY,
    DEAD_DELETE,
    DEAD_GROUPS,
    DEAD_REPLAY_GROUP,
    DEAD_DELETE_GROUP,
    QUEUE_LIST,
    QUEUE_SHOW,
    QUEUE_PAUSE,
    QUEUE_RESUME,
    QUEUE_LIMIT,
    WORKER_LIST,
    STATS_SHOW,
    ALERT_LIST,
    ALERT_SILENCE,
    ALERT_UNSILENCE,
    PULSE_SHOW,
    PULSE_QUEUES,
    KEY_CREATE,
    KEY_LIST,
    KEY_REVOKE,
    SESSION_LIST,
    SETTINGS_SHOW,
    SECRETS_ROTATE,
    AUDIT_LIST,
)
OPERATIONS_BY_NAME: Final = {operation.name: operation for operation in OPERATIONS}
