"""Jobs of one request that come after one another."""

from collections.abc import Mapping
from typing import Final

import msgspec

from onbeat.model.ids import JobId
from onbeat.model.job import Edge, JobState

SENT: Final = "sent"
"""In place of a job: all that were sent with this one."""


class Awaited(msgspec.Struct, frozen=True, gc=False):
    """One job that another comes after: its name in the request, or its id."""

    job: str
    on: Edge = Edge.SUCCESS


class FlowLook(msgspec.Struct, frozen=True):
    """How many members of a flow are in each state, of those that were looked at.

    `more` says that there are others.
    """

    flow: JobId
    counts: Mapping[JobState, int]
    more: bool
