"""Alerts: what somebody should be told about, and the silences that keep them quiet."""

from datetime import datetime
from typing import Literal

import msgspec

from onbeat.model.event import Event

Level = Literal["ok", "warn", "fail"]


class Alert(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Something that is wrong since `since`, or was until `ended_at`.

    `key` names the thing that is wrong: one alert for each, however often it is seen.
    `is_announced` says whether its event was written, which a silence puts off. `times` counts how
    often it has begun, as long as it is remembered after its end. `fault` is the fault of the jobs
    that fail.
    """

    key: str
    level: Level
    text: str
    detail: str
    since: datetime
    seen_at: datetime
    ended_at: datetime | None = None
    is_announced: bool = False
    queue: str | None = None
    job: str | None = None
    fault: str | None = None
    times: int = 1


class AlertChange(msgspec.Struct, frozen=True, kw_only=True):
    """What happens to one alert, with the event that is written if it does.

    `seen`: it is wrong now. `announced`: whoever asked for it is told. `ended`: it is not wrong any
    more, unless another process has seen it after `alert.seen_at`.
    """

    to: Literal["seen", "announced", "ended"]
    alert: Alert
    event: Event | None = None


class AlertSilence(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """From `starts_at` to `until` no alert is told whose key is as `match`, which may end with `*`.

    Without `starts_at` it holds at once.
    """

    id: str
    match: str
    starts_at: datetime | None = None
    until: datetime
    note: str
    made_by: str
    made_at: datetime
