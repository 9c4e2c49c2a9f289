"""Schedules: their changes, their occurrences, and what they will do."""

from typing import Any, Final

from onbeat.model.principal import Scope
from onbeat.operations import (
    backfills,
    edits,
    forecasts,
    occurrences,
    outcomes,
    recurrences,
    schedules,
    timelines,
)
from onbeat.operations.tables.operation import Operation
from onbeat.wire.forecasts import AskForecast, ForecastAnswer
from onbeat.wire.occurrences import EventsAnswer
from onbeat.wire.outcomes import (
    DiffPut,
    DiffSchedule,
    ListOccurrences,
    OccurrencesAnswer,
    ScheduleDiff,
)
from onbeat.wire.recurrences import Preview
from onbeat.wire.requests import (
    Backfill,
    Backfilled,
    Created,
    CreateSchedule,
    ListEvents,
    ListSchedules,
    Message,
    PreviewRecurrence,
    PreviewSchedule,
    PutResult,
    PutSchedule,
    ScheduleById,
    SchedulesAnswer,
    Triggered,
    UpdateSchedule,
)
from onbeat.wire.schedules import ScheduleAnswer
from onbeat.wire.timeline import ShowTimeline, TimelineAnswer

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
)
