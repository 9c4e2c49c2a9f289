"""Hides secrets in log lines that are kept with jobs, as in the log of the process."""

from collections.abc import Callable, Collection

from onbeat.model.log_line import LogEntry
from onbeat.telemetry.redaction import redact_fields, redactor


def cleaner(secrets: Collection[str]) -> Callable[[LogEntry], LogEntry]:
    """A function that hides these secrets, and what looks like one, in text and fields."""
    redact = redactor(secrets)

    def clean(entry: LogEntry) -> LogEntry:
        return LogEntry(
            at=entry.at,
            level=entry.level,
            logger=entry.logger,
            text=redact(entry.text),
            fields=redact_fields(entry.fields, redact),
        )

    return clean
