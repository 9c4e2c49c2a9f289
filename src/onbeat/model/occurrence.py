"""What may become of an occurrence of a schedule."""

from enum import StrEnum


class OccurrenceOutcome(StrEnum):
    """`planned` waits for its first attempt, `late` succeeded although it started late."""

    PLANNED = "planned"
    RUNNING = "running"
    RETRYING = "retrying"
    RAN = "ran"
    LATE = "late"
    FAILED = "failed"
    CANCELLED = "cancelled"
    SKIPPED = "skipped"
    MISFIRED = "misfired"
    FORGOTTEN = "forgotten"
