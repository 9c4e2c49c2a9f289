"""Unique keys that stay taken after the job that had them."""

from datetime import datetime, timedelta
from typing import Final

import msgspec

from onbeat.model.ids import JobId

ALWAYS: Final = timedelta.max
"""The `unique_for` of a key that is never free again."""


class HeldKey(msgspec.Struct, frozen=True, kw_only=True):
    """The ended job `job_id` holds `key` before `until`; None stands for always."""

    key: str
    job_id: JobId
    until: datetime | None
