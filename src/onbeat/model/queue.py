"""A queue: a named line of jobs."""

from datetime import datetime

import msgspec


class Queue(msgspec.Struct, frozen=True, kw_only=True):
    """A queue as it stands now. `oldest_due_at` is the due time of its longest-waiting due job."""

    name: str
    paused: bool = False
    waiting: int = 0
    due: int = 0
    running: int = 0
    oldest_due_at: datetime | None = None
