"""Identities, each its own type, so that one cannot be passed where another is meant."""

from typing import NewType

JobId = NewType("JobId", str)
"""A UUIDv7 in its canonical text form: sorts by creation time."""

ScheduleId = NewType("ScheduleId", str)
"""A UUIDv7 in its canonical text form."""

WorkerId = NewType("WorkerId", str)
"""Names one life of one worker process; a restarted process is another worker."""

Token = NewType("Token", int)
"""Fencing value of a job: raised at every claim, so only the newest holder's writes count."""

LetterId = NewType("LetterId", str)
"""A UUIDv7 in its canonical text form: dead letters sort by when they were put aside."""
