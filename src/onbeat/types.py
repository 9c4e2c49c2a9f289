"""Types for annotations: what Onbeat's methods return, and the keywords that they take."""

from onbeat.app.audit import AuditFilters
from onbeat.app.call import CallOptions, NoticeOptions, Span, TaskOptions
from onbeat.app.event_drafts import EventAttributes
from onbeat.app.events import EventFilters
from onbeat.app.failures import FailureFilters
from onbeat.app.jobs import BulkFilters, JobFilters
from onbeat.app.overview import TimelineOptions
from onbeat.app.queues import QueueLimits
from onbeat.app.schedule_drafts import Policies, Rule
from onbeat.app.schedules import OccurrenceFilters
from onbeat.app.secrets import Rotated
from onbeat.app.transaction.sender import TransactionalSender
from onbeat.model.attempt import OutcomeName
from onbeat.model.bulk import BulkAction, BulkState
from onbeat.model.fault import FaultProcess, OperatorNote, Spread
from onbeat.model.ids import JobId, ScheduleId
from onbeat.model.job import Edge, JobState, Progress
from onbeat.model.occurrence import OccurrenceOutcome
from onbeat.model.principal import Scope
from onbeat.model.reaction import Keep
from onbeat.model.remote_task import RemoteTask
from onbeat.model.retry import Backoff, RetryPolicy
from onbeat.model.schedule import CatchUp, Overlap, PauseReason, ScheduleStatus
from onbeat.model.timeline import MarkKind, TimelineSpan
from onbeat.rules.ip_policy import Allowed
from onbeat.wire.access import AuditAnswer, CreatedKey, KeyAnswer
from onbeat.wire.alerts import AlertAnswer, SilenceAnswer
from onbeat.wire.bulks import BulkCount, BulkInfo, JobWhere
from onbeat.wire.conditions import ConditionAnswer, WindowAnswer
from onbeat.wire.dead_letters import DeadLetterAnswer, DeadLetterDetail, Replayed
from onbeat.wire.events import EventInfo, PublishedEvent, VerdictInfo
from onbeat.wire.failures import DeadLetterGroup, FailureInfo, GroupReplayed
from onbeat.wire.flows import (
    FlowAnswer,
    FlowChange,
    FlowCounts,
    FlowEdge,
    FlowInfo,
    FlowsAnswer,
    FlowSummary,
)
from onbeat.wire.forecasts import ForecastAnswer, HourAnswer
from onbeat.wire.job_logs import JobLogAnswer, LogLineAnswer
from onbeat.wire.jobs import AttemptAnswer, EdgeBody, HistoryEntry, JobInfo, ProgressAnswer
from onbeat.wire.limits import LimitsAnswer
from onbeat.wire.occurrences import EventStatus, ScheduleEvent
from onbeat.wire.outcomes import FieldChange, OccurrenceAnswer, OccurrencesAnswer, ScheduleDiff
from onbeat.wire.pulses import (
    DepthAnswer,
    PointAnswer,
    PulsesAnswer,
    QueueStartsAnswer,
    SampleAnswer,
)
from onbeat.wire.queues import GroupAnswer, PauseAnswer, QueueAnswer, QueueDetail
from onbeat.wire.reactions import GatherAnswer, PatternAnswer, UntilAnswer
from onbeat.wire.recurrences import Preview
from onbeat.wire.requests import Backfilled, Explanation, JobsAnswer, StateCount
from onbeat.wire.schedules import ScheduleAnswer
from onbeat.wire.settings import SessionAnswer, SettingAnswer
from onbeat.wire.stats import StatsAnswer
from onbeat.wire.targets import (
    HttpAnswer,
    MessageAnswer,
    NotifyAnswer,
    RetryAnswer,
    TargetAnswer,
)
from onbeat.wire.timeline import (
    BucketAnswer,
    ClockChangeAnswer,
    LaneAnswer,
    MarkAnswer,
    TimelineAnswer,
)
from onbeat.wire.workers import RemoteWorkerAnswer, RunningAnswer, WorkerAnswer, WorkersAnswer

__all__ = [
    "AlertAnswer",
    "Allowed",
    "AttemptAnswer",
    "AuditAnswer",
    "AuditFilters",
    "Backfilled",
    "Backoff",
    "BucketAnswer",
    "BulkAction",
    "BulkCount",
    "BulkFilters",
    "BulkInfo",
    "BulkState",
    "CallOptions",
    "CatchUp",
    "ClockChangeAnswer",
    "ConditionAnswer",
    "CreatedKey",
    "DeadLetterAnswer",
    "DeadLetterDetail",
    "DeadLetterGroup",
    "DepthAnswer",
    "Edge",
    "EdgeBody",
    "EventAttributes",
    "EventFilters",
    "EventInfo",
    "EventStatus",
    "Explanation",
    "FailureFilters",
    "FailureInfo",
    "FaultProcess",
    "FieldChange",
    "FlowAnswer",
    "FlowChange",
    "FlowCounts",
    "FlowEdge",
    "FlowInfo",
    "FlowSummary",
    "FlowsAnswer",
    "ForecastAnswer",
    "GatherAnswer",
    "GroupAnswer",
    "GroupReplayed",
    "HistoryEntry",
    "HourAnswer",
    "HttpAnswer",
    "JobFilters",
    "JobId",
    "JobInfo",
    "JobLogAnswer",
    "JobState",
    "JobWhere",
    "JobsAnswer",
    "Keep",
    "KeyAnswer",
    "LaneAnswer",
    "LimitsAnswer",
    "LogLineAnswer",
    "MarkAnswer",
    "MarkKind",
    "MessageAnswer",
    "NoticeOptions",
    "NotifyAnswer",
    "OccurrenceAnswer",
    "OccurrenceFilters",
    "OccurrenceOutcome",
    "OccurrencesAnswer",
    "OperatorNote",
    "OutcomeName",
    "Overlap",
    "PatternAnswer",
    "PauseAnswer",
    "PauseReason",
    "PointAnswer",
    "Policies",
    "Preview",
    "Progress",
    "ProgressAnswer",
    "PublishedEvent",
    "PulsesAnswer",
    "QueueAnswer",
    "QueueDetail",
    "QueueLimits",
    "QueueStartsAnswer",
    "RemoteTask",
    "RemoteWorkerAnswer",
    "Replayed",
    "RetryAnswer",
    "RetryPolicy",
    "Rotated",
    "Rule",
    "RunningAnswer",
    "SampleAnswer",
    "ScheduleAnswer",
    "ScheduleDiff",
    "ScheduleEvent",
    "ScheduleId",
    "ScheduleStatus",
    "Scope",
    "SessionAnswer",
    "SettingAnswer",
    "SilenceAnswer",
    "Span",
    "Spread",
    "StateCount",
    "StatsAnswer",
    "TargetAnswer",
    "TaskOptions",
    "TimelineAnswer",
    "TimelineOptions",
    "TimelineSpan",
    "TransactionalSender",
    "UntilAnswer",
    "VerdictInfo",
    "WindowAnswer",
    "WorkerAnswer",
    "WorkersAnswer",
]
