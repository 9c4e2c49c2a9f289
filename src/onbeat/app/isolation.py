"""Reads the isolation of a task: none, or a process with a bound of its memory."""

import re
from typing import Final

from onbeat.model.errors import Invalid
from onbeat.model.limits import MEMORY_BYTES_MIN
from onbeat.targets.handler import Isolation

MEMORY: Final = re.compile(r"(?P<number>\d{1,15})\s*(?P<unit>[KMG])?(i?B)?", re.IGNORECASE)
MEMORY_UNITS: Final = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30}


def isolation_of(isolation: str, memory: int | str | None) -> Isolation | None:
    """The isolation of a task. Raises `Invalid` naming the invalid option."""
    if isolation not in {"none", "process"}:
        raise Invalid(f"isolation must be none or process, not {isolation!r}", field="isolation")
    if isolation == "none":
        if memory is not None:
            raise Invalid("memory bounds a process; it needs isolation='process'", field="memory")
        return None
    return Isolation(None if memory is None else memory_bytes(memory))


def memory_bytes(value: int | str) -> int:
    """A number of bytes, or text such as 512MB or 2GiB; both units are powers of 1024."""
    match = MEMORY.fullmatch(str(value).strip())
    size = int(match["number"]) * MEMORY_UNITS[(match["unit"] or "").upper()] if match else 0
    if size < MEMORY_BYTES_MIN:
        raise Invalid(
            f"memory must be at least {MEMORY_BYTES_MIN >> 20}MB, as bytes or text such as 512MB",
            field="memory",
        )
    return size
