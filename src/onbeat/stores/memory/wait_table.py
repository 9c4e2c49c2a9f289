"""Waits of running jobs for events, as rows with their indexes."""

from collections.abc import Iterator

from onbeat.model.event_wait import EventWait
from onbeat.model.ids import EventSeq, JobId

WaitKey = tuple[JobId, str]


class WaitTable:
    """Rows change only through `put` and `remove`."""

    def __init__(self) -> None:
        self.rows: dict[WaitKey, EventWait] = {}
        self.open: dict[str, dict[str | None, set[WaitKey]]] = {}
        self.of_event: dict[EventSeq, set[WaitKey]] = {}

    def put(self, wait: EventWait) -> None:
        key = wait.job_id, wait.step
        self.remove(key)
        self.rows[key] = wait
        if wait.is_open:
            self.open.setdefault(wait.type, {}).setdefault(wait.by, set()).add(key)
        if wait.seq is not None:
            self.of_event.setdefault(wait.seq, set()).add(key)

    def remove(self, key: WaitKey) -> None:
        old = self.rows.pop(key, None)
        if old is None:
            return
        if old.is_open:
            of_type = self.open[old.type]
            of_type[old.by].discard(key)
            if not of_type[old.by]:
                del of_type[old.by]
            if not of_type:
                del self.open[old.type]
        if old.seq is not None:
            self.of_event[old.seq].discard(key)
            if not self.of_event[old.seq]:
                del self.of_event[old.seq]

    def open_for(self, type: str, by: str | None) -> Iterator[EventWait]:
        for key in self.open.get(type, {}).get(by, ()):
            yield self.rows[key]
