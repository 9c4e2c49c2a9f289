"""Jobs of one request that come after one another."""

from typing import Final

import msgspec

from onbeat.model.job import Edge

SENT: Final = "sent"
"""In place of a job: all that were sent with this one."""


class Awaited(msgspec.Struct, frozen=True, gc=False):
    """One job that another comes after: its name in the request, or its id."""

    job: str
    on: Edge = Edge.SUCCESS
