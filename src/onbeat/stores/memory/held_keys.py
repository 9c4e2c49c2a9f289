"""Unique keys that ended jobs hold."""

from collections.abc import Sequence
from datetime import datetime

from onbeat.model.held_key import HeldKey
from onbeat.rules.held_keys import is_held, outlasts
from onbeat.stores.memory.tables import Tables


def find_held_key(tables: Tables, key: str, now: datetime) -> HeldKey | None:
    held = tables.ends.held_keys.get(key)
    return held if held is not None and is_held(held, now) else None


def prune_held_keys(tables: Tables, now: datetime, limit: int) -> int:
    past = [key for key, held in tables.ends.held_keys.items() if not is_held(held, now)][:limit]
    for key in past:
        del tables.ends.held_keys[key]
    return len(past)


def export_held_keys(tables: Tables, after: str | None, limit: int) -> Sequence[HeldKey]:
    keys = sorted(key for key in tables.ends.held_keys if after is None or key > after)
    return tuple(tables.ends.held_keys[key] for key in keys[:limit])


def import_held_keys(tables: Tables, held: Sequence[HeldKey]) -> int:
    longer = [one for one in held if outlasts(one, tables.ends.held_keys.get(one.key))]
    tables.ends.held_keys.update((one.key, one) for one in longer)
    return len(longer)
