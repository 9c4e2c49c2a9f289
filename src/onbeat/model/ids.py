"""Id types, distinct for the type checker so that ids of different kinds cannot be mixed up."""

from typing import NewType

JobId = NewType("JobId", str)
"""A UUIDv7 in canonical text form: sorts by creation time."""

ScheduleId = NewType("ScheduleId", str)
"""A UUIDv7 in canonical text form."""

WorkerId = NewType("WorkerId", str)
"""Identifies one run of one worker process; a restarted process is another worker."""

Token = NewType("Token", int)
"""Fencing token of a job: rises at every claim, so only the newest holder's writes count."""

DeadLetterId = NewType("DeadLetterId", str)
"""A UUIDv7 in canonical text form: sorts by the time when the dead letter was stored."""

EventSeq = NewType("EventSeq", int)
"""The place of an event in the order in which a store received them."""
