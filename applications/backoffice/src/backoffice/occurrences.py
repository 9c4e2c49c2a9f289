"""The time that a run is about."""

from datetime import datetime

from onbeat import Context


def time_of(context: Context, at: datetime | None = None) -> datetime:
    """`at` if a caller gave one, else the occurrence of the schedule, else when the job was due.

    So a run that comes late, or again, means the same day.
    """
    return at or context.occurrence or context.due_at
