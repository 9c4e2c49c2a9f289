"""Schedules of other systems: one module reads each source, and runs nothing of it.

`read` is the door. Readers take the text of a file and give schedules in the form of a schedule
file, with every difference from what the source does.
"""

from collections.abc import Callable, Mapping
from typing import Final

from onbeat.cli.imports.apscheduler_module import read_apscheduler
from onbeat.cli.imports.celery_module import read_celery
from onbeat.cli.imports.checks import checked
from onbeat.cli.imports.crontab import read_crontab
from onbeat.cli.imports.eventbridge import read_eventbridge
from onbeat.cli.imports.kubernetes import read_kubernetes
from onbeat.cli.imports.records import (
    ImportDifference,
    ImportedSchedule,
    ImportOptions,
    ImportResult,
    UnreadableSource,
)
from onbeat.cli.imports.rrule_scheduler import read_rrule_scheduler
from onbeat.model.limits import IMPORT_BYTES_MAX

SOURCES: Final[Mapping[str, Callable[[str, ImportOptions], ImportResult]]] = {
    "crontab": read_crontab,
    "celery": read_celery,
    "apscheduler": read_apscheduler,
    "rrule-scheduler": read_rrule_scheduler,
    "kubernetes": read_kubernetes,
    "eventbridge": read_eventbridge,
}


def read(text: str, source: str, options: ImportOptions) -> ImportResult:
    """The schedules of a file that Onbeat accepts, and all differences.

    Raises `UnreadableSource` for a file that is not of this source, or too large.
    """
    if len(text.encode("utf-8", "surrogatepass")) > IMPORT_BYTES_MAX:
        raise UnreadableSource(f"it has more than {IMPORT_BYTES_MAX} bytes; import it in parts")
    return checked(SOURCES[source](text, options))


__all__ = [
    "SOURCES",
    "ImportDifference",
    "ImportOptions",
    "ImportResult",
    "ImportedSchedule",
    "UnreadableSource",
    "read",
]
