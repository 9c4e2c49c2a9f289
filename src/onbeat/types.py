"""Types for annotations: what Onbeat's methods return, and the keywords that they take."""

from onbeat.app.audit import AuditFilters
from onbeat.app.call import CallOptions, NoticeOptions, Span, TaskOptions
from onbeat.app.event_drafts import EventAttributes
from onbeat.app.events import EventFilters
from onbeat.app.jobs import BulkFilters, JobFilters
from onbeat.app.queues import QueueLimits
from onbeat.app.schedule_drafts import Policies, Rule
from onbeat.app.secrets import Rotated
from onbeat.app.transaction.sender import TransactionalSender
from onbeat.model.attempt import OutcomeName
from onbeat.model.bulk import BulkAction, BulkState
from onbeat.model.ids import JobId, ScheduleId
from onbeat.model.job import Edge, JobState, Progress
from onbeat.model.reaction import Keep
from onbeat.model.remote_task import RemoteTask
from onbeat.model.retry import Backoff, RetryPolicy
from onbeat.model.schedule import CatchUp, Overlap, PauseReason
from onbeat.rules.ip_policy import Allowed
from onbeat.wire.access import AuditAnswer
from onbeat.wire.alerts import AlertAnswer, SilenceAnswer
from onbeat.wire.bulks import BulkCount, BulkInfo, JobWhere
from onbeat.wire.conditions import ConditionAnswer, WindowAnswer
from onbeat.wire.events import EventInfo, PublishedEvent, VerdictInfo
from onbeat.wire.failures import FailureInfo, GroupReplayed
from onbeat.wire.flows import FlowAnswer, FlowChange, FlowCounts, FlowEdge, FlowSummary
from onbeat.wire.job_logs import JobLogAnswer, LogLineAnswer
from onbeat.wire.jobs import AttemptAnswer, EdgeBody, HistoryEntry, JobInfo, ProgressAnswer
from onbeat.wire.limits import LimitsAnswer
from onbeat.wire.pulses import (
    DepthAnswer,
    PointAnswer,
    PulsesAnswer,
    QueueStartsAnswer,
    SampleAnswer,
)
from onbeat.wire.queues import GroupAnswer, PauseAnswer, QueueAnswer, QueueDetail
from onbeat.wire.reactions import GatherAnswer, PatternAnswer, UntilAnswer
from onbeat.wire.requests import Explanation, JobsAnswer, StateCount
from onbeat.wire.schedules import ScheduleAnswer
from onbeat.wire.targets import (
    HttpAnswer,
    MessageAnswer,
    NotifyAnswer,
    RetryAnswer,
    TargetAnswer,
)

__all__ = [
    "AlertAnswer",
    "Allowed",
    "AttemptAnswer",
    "AuditAnswer",
    "AuditFilters",
    "Backoff",
    "BulkAction",
    "BulkCount",
    "BulkFilters",
    "BulkInfo",
    "BulkState",
    "CallOptions",
    "CatchUp",
    "ConditionAnswer",
    "DepthAnswer",
    "Edge",
    "EdgeBody",
    "EventAttributes",
    "EventFilters",
    "EventInfo",
    "Explanation",
    "FailureInfo",
    "FlowAnswer",
    "FlowChange",
    "FlowCounts",
    "FlowEdge",
    "FlowSummary",
    "GatherAnswer",
    "GroupAnswer",
    "GroupReplayed",
    "HistoryEntry",
    "HttpAnswer",
    "JobFilters",
    "JobId",
    "JobInfo",
    "JobLogAnswer",
    "JobState",
    "JobWhere",
    "JobsAnswer",
    "Keep",
    "LimitsAnswer",
    "LogLineAnswer",
    "MessageAnswer",
    "NoticeOptions",
    "NotifyAnswer",
    "OutcomeName",
    "Overlap",
    "PatternAnswer",
    "PauseAnswer",
    "PauseReason",
    "PointAnswer",
    "Policies",
    "Progress",
    "ProgressAnswer",
    "PublishedEvent",
    "PulsesAnswer",
    "QueueAnswer",
    "QueueDetail",
    "QueueLimits",
    "QueueStartsAnswer",
    "RemoteTask",
    "RetryAnswer",
    "RetryPolicy",
    "Rotated",
    "Rule",
    "SampleAnswer",
    "ScheduleAnswer",
    "ScheduleId",
    "SilenceAnswer",
    "Span",
    "StateCount",
    "TargetAnswer",
    "TaskOptions",
    "TransactionalSender",
    "UntilAnswer",
    "VerdictInfo",
    "WindowAnswer",
]
