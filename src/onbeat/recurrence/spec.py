"""Re-exports the stored form of a recurrence, which is part of the model."""

from onbeat.model.recurrence import CalendarSpec, Kind, RecurrenceSpec, Roll

__all__ = ["CalendarSpec", "Kind", "RecurrenceSpec", "Roll"]
