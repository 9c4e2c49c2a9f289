"""Every operation once: the API in one page, from which each surface is made."""

from collections.abc import Awaitable, Callable
from typing import Any, Final, Generic, Literal, TypeVar

import msgspec

from onbeat.model.limits import BULK_REQUEST_BYTES_MAX, REQUEST_BYTES_MAX
from onbeat.operations import (
    events,
    forecasts,
    jobs,
    letters,
    places,
    recurrences,
    schedules,
    whys,
    working,
)
from onbeat.operations.operator import Operator
from onbeat.wire.events import EventsAnswer
from onbeat.wire.forecasts import AskForecast, ForecastAnswer
from onbeat.wire.jobs import JobAnswer
from onbeat.wire.letters import LetterDetail, LettersAnswer, Replayed
from onbeat.wire.places import QueueAnswer, QueuesAnswer, QueueState, StatsAnswer, WorkersAnswer
from onbeat.wire.recurrences import Preview
from onbeat.wire.reports import ClaimedAnswer, RenewedAnswer, SettledAnswer, WorkAnswer
from onbeat.wire.requests import (
    Backfill,
    Backfilled,
    CancelJob,
    ClaimJobs,
    Created,
    CreateSchedule,
    Done,
    Enqueue,
    Enqueued,
    JobById,
    JobsAnswer,
    LetterById,
    LimitQueue,
    ListEvents,
    ListJobs,
    ListLetters,
    ListSchedules,
    ListWorkers,
    Nothing,
    PreviewRecurrence,
    Put,
    PutSchedule,
    QueueByName,
    RenewJob,
    ScheduleById,
    SchedulesAnswer,
    SettleJob,
    StartJob,
    Triggered,
    UpdateSchedule,
    Why,
)
from onbeat.wire.schedules import ScheduleAnswer

Request = TypeVar("Request")
Answer = TypeVar("Answer")
Method = Literal["GET", "POST", "PUT", "DELETE"]


class Operation(msgspec.Struct, Generic[Request, Answer], frozen=True, kw_only=True):
    """One verb and how it is reached.

    `body` names the field of the request that an HTTP body fills; the other fields come from the
    path and the query. An answer whose `created` is false has status 200.
    """

    name: str
    id: str
    summary: str
    function: Callable[[Operator, Request], Awaitable[Answer]]
    request: type[Request]
    answer: type[Answer]
    method: Method
    path: str
    status: int = 200
    body: str | None = None
    body_required: bool = True
    body_bytes_max: int = REQUEST_BYTES_MAX

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
)
SCHEDULE_PUT: Final = Operation(
    name="schedule.put",
    id="putSchedule",
    summary="Create or change the schedule with this key, so that it is as described",
    function=schedules.put,
    request=PutSchedule,
    answer=Put,
    method="PUT",
    path="/api/schedules/by-key/{key}",
    status=201,
    body="schedule",
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
)
SCHEDULE_UPDATE: Final = Operation(
    name="schedule.update",
    id="updateSchedule",
    summary="Change the given fields of a schedule",
    function=schedules.update,
    request=UpdateSchedule,
    answer=Done,
    method="PUT",
    path="/api/schedules/{id}",
    body="changes",
)
SCHEDULE_DELETE: Final = Operation(
    name="schedule.delete",
    id="deleteSchedule",
    summary="Delete a schedule and cancel its waiting jobs; its history stays readable",
    function=schedules.delete,
    request=ScheduleById,
    answer=Done,
    method="DELETE",
    path="/api/schedules/{id}",
)
SCHEDULE_PAUSE: Final = Operation(
    name="schedule.pause",
    id="pauseSchedule",
    summary="Pause a schedule: its waiting jobs go, nothing new comes",
    function=schedules.pause,
    request=ScheduleById,
    answer=Done,
    method="POST",
    path="/api/schedules/{id}/pause",
)
SCHEDULE_RESUME: Final = Operation(
    name="schedule.resume",
    id="resumeSchedule",
    summary="Resume a paused schedule from now on",
    function=schedules.resume,
    request=ScheduleById,
    answer=Done,
    method="POST",
    path="/api/schedules/{id}/resume",
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
)
JOB_ENQUEUE: Final = Operation(
    name="job.enqueue",
    id="enqueueJobs",
    summary="Enqueue one job, or many in one write",
    function=jobs.enqueue,
    request=Enqueue,
    answer=Enqueued,
    method="POST",
    path="/api/jobs",
    status=201,
    body="jobs",
    body_bytes_max=BULK_REQUEST_BYTES_MAX,
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
)
JOB_SHOW: Final = Operation(
    name="job.show",
    id="getJob",
    summary="Show a job with its attempts and its history",
    function=jobs.show,
    request=JobById,
    answer=JobAnswer,
    method="GET",
    path="/api/jobs/{id}",
)
JOB_CANCEL: Final = Operation(
    name="job.cancel",
    id="cancelJob",
    summary="Cancel a waiting job, or ask a running one to stop",
    function=jobs.cancel,
    request=CancelJob,
    answer=JobAnswer,
    method="POST",
    path="/api/jobs/{id}/cancel",
    body="why",
    body_required=False,
)
JOB_RETRY: Final = Operation(
    name="job.retry",
    id="retryJob",
    summary="Let a failed or cancelled job wait again, due now",
    function=jobs.retry,
    request=JobById,
    answer=JobAnswer,
    method="POST",
    path="/api/jobs/{id}/retry",
)
JOB_WHY: Final = Operation(
    name="job.why",
    id="explainJob",
    summary="Why a job does not run, what it waits for, and when it may run",
    function=whys.why,
    request=JobById,
    answer=Why,
    method="GET",
    path="/api/jobs/{id}/why",
)
JOB_CLAIM: Final = Operation(
    name="job.claim",
    id="claimJobs",
    summary="Take due jobs to run elsewhere, each with a lease",
    function=working.claim,
    request=ClaimJobs,
    answer=ClaimedAnswer,
    method="POST",
    path="/api/jobs/claim",
    body="claim",
)
JOB_START: Final = Operation(
    name="job.start",
    id="startJob",
    summary="Fetch a job that was announced without its arguments",
    function=working.start,
    request=StartJob,
    answer=WorkAnswer,
    method="POST",
    path="/api/jobs/{id}/start",
    body="lease",
)
JOB_RENEW: Final = Operation(
    name="job.renew",
    id="renewJob",
    summary="Keep the lease of a job that runs elsewhere",
    function=working.renew,
    request=RenewJob,
    answer=RenewedAnswer,
    method="POST",
    path="/api/jobs/{id}/renew",
    body="lease",
)
JOB_SETTLE: Final = Operation(
    name="job.settle",
    id="settleJob",
    summary="Say what a job that ran elsewhere came to",
    function=working.settle,
    request=SettleJob,
    answer=SettledAnswer,
    method="POST",
    path="/api/jobs/{id}/settle",
    body="report",
)
DEAD_LIST: Final = Operation(
    name="dead.list",
    id="listDeadLetters",
    summary="List messages that were put aside, newest first",
    function=letters.list_letters,
    request=ListLetters,
    answer=LettersAnswer,
    method="GET",
    path="/api/dead",
)
DEAD_SHOW: Final = Operation(
    name="dead.show",
    id="getDeadLetter",
    summary="Show a message that was put aside, whole",
    function=letters.show,
    request=LetterById,
    answer=LetterDetail,
    method="GET",
    path="/api/dead/{id}",
)
DEAD_REPLAY: Final = Operation(
    name="dead.replay",
    id="replayDeadLetter",
    summary="Try a message again; it goes when it went through",
    function=letters.replay,
    request=LetterById,
    answer=Replayed,
    method="POST",
    path="/api/dead/{id}/replay",
)
DEAD_DELETE: Final = Operation(
    name="dead.delete",
    id="deleteDeadLetter",
    summary="Delete a message that was put aside",
    function=letters.delete,
    request=LetterById,
    answer=Done,
    method="DELETE",
    path="/api/dead/{id}",
)
QUEUE_LIST: Final = Operation(
    name="queue.list",
    id="listQueues",
    summary="Queues that have live jobs, are paused or are limited",
    function=places.list_queues,
    request=Nothing,
    answer=QueuesAnswer,
    method="GET",
    path="/api/queues",
)
QUEUE_PAUSE: Final = Operation(
    name="queue.pause",
    id="pauseQueue",
    summary="Give out no more jobs of a queue",
    function=places.pause_queue,
    request=QueueByName,
    answer=QueueState,
    method="POST",
    path="/api/queues/{name}/pause",
)
QUEUE_RESUME: Final = Operation(
    name="queue.resume",
    id="resumeQueue",
    summary="Give out jobs of a queue again",
    function=places.resume_queue,
    request=QueueByName,
    answer=QueueState,
    method="POST",
    path="/api/queues/{name}/resume",
)
QUEUE_LIMIT: Final = Operation(
    name="queue.limit",
    id="limitQueue",
    summary="Limit how many jobs of a queue run at once and how often they start",
    function=places.limit_queue,
    request=LimitQueue,
    answer=QueueAnswer,
    method="PUT",
    path="/api/queues/{name}",
    body="limits",
)
WORKER_LIST: Final = Operation(
    name="worker.list",
    id="listWorkers",
    summary="Workers, what they can run, what they run now and whether they are alive",
    function=places.list_workers,
    request=ListWorkers,
    answer=WorkersAnswer,
    method="GET",
    path="/api/workers",
)
STATS_SHOW: Final = Operation(
    name="stats.show",
    id="getStats",
    summary="Counts of jobs and schedules by state",
    function=places.show_stats,
    request=Nothing,
    answer=StatsAnswer,
    method="GET",
    path="/api/stats",
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
)
OPERATIONS_BY_NAME: Final = {operation.name: operation for operation in OPERATIONS}
