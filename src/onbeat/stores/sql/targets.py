"""Replaces the target in the stored text of a job or schedule."""

from collections.abc import Iterable

import msgspec

from onbeat.model.target import Target
from onbeat.ports.access import TargetChange
from onbeat.stores.sql.values import to_json

PARTS = msgspec.json.Decoder(dict[str, msgspec.Raw])
TARGET = msgspec.json.Decoder(Target)


def by_id(changes: Iterable[TargetChange]) -> dict[str, TargetChange]:
    return {change.id: change for change in changes}


def with_target(spec: str, change: TargetChange) -> str | None:
    """The text with the new target; None if its target has changed since it was read."""
    parts = PARTS.decode(spec)
    if TARGET.decode(parts["target"]) != change.before:
        return None
    parts["target"] = msgspec.Raw(msgspec.json.encode(change.after))
    return to_json(parts)
