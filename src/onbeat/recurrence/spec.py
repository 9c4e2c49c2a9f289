"""The stored form of a recurrence lives in the model, since schedules hold one; named here too."""

from onbeat.model.recurrence import CalendarSpec, Kind, RecurrenceSpec, Roll

__all__ = ["CalendarSpec", "Kind", "RecurrenceSpec", "Roll"]
