"""Between stored specs and live recurrences.

The record itself lives in `onbeat.model.recurrence`, since schedules hold one and the model may
not import this package. Coordinator's note: extend that record there if a kind needs more fields.
"""

from onbeat.model.recurrence import RecurrenceSpec

__all__ = ["RecurrenceSpec"]
