"""Column values: instants as microseconds since the epoch, records as JSON text."""

from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import Any, Final

import msgspec

from onbeat.model.job import JobState
from onbeat.model.schedule import Overlap
from onbeat.model.target import Target
from onbeat.ports.access import TargetChange

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
INSTANTS_KEPT: Final = 256  # most instants of a job equal another of its own or of its neighbours
ENCODER = msgspec.json.Encoder()
PARTS = msgspec.json.Decoder(dict[str, msgspec.Raw])
TARGET = msgspec.json.Decoder(Target)

STATES = {state.value: state for state in JobState}
OVERLAPS: dict[str | None, Overlap] = {
    None: Overlap.ALLOW,
    **{overlap.value: overlap for overlap in Overlap},
}


def micros(instant: datetime) -> int:
    """Exact; a float would lose the last digits."""
    span = instant - EPOCH
    return (span.days * 86_400 + span.seconds) * 1_000_000 + span.microseconds


def micros_or_none(instant: datetime | None) -> int | None:
    return None if instant is None else micros(instant)


@lru_cache(INSTANTS_KEPT)
def instant(value: int) -> datetime:
    return EPOCH + timedelta(microseconds=value)


def instant_or_none(value: int | None) -> datetime | None:
    return None if value is None else instant(value)


def text_or_none(raw: msgspec.Raw | None) -> str | None:
    return None if raw is None else bytes(raw).decode()


def to_json(value: Any) -> str:
    return ENCODER.encode(value).decode()


def overlap_text(overlap: Overlap) -> str | None:
    """None for the default rule, which then takes no space."""
    return None if overlap is Overlap.ALLOW else overlap.value


def with_target(spec: str, change: TargetChange) -> str | None:
    """The text with the new target; None if its target has changed since it was read."""
    parts = PARTS.decode(spec)
    if TARGET.decode(parts["target"]) != change.before:
        return None
    parts["target"] = msgspec.Raw(msgspec.json.encode(change.after))
    return to_json(parts)
