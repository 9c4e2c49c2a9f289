"""The attempts of workers that were killed, as their handlers have written them down."""

import struct
import uuid
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Final

LINE: Final = struct.Struct(">16sIq")
"""The job's id, its token, and when the attempt began, in microseconds since the epoch."""

pack = LINE.pack


def count_attempts(place: Path) -> int:
    return sum(path.stat().st_size for path in place.glob("*.attempts")) // LINE.size


def read_attempts(place: Path) -> dict[str, list[tuple[int, int]]]:
    """For each job the token of each attempt and when it began."""
    attempts: dict[str, list[tuple[int, int]]] = defaultdict(list)
    for id, token, began in read_lines(place):
        attempts[str(uuid.UUID(bytes=id))].append((token, began))
    return attempts


def read_lines(place: Path) -> Iterator[tuple[bytes, int, int]]:
    for path in place.glob("*.attempts"):
        content = path.read_bytes()
        yield from LINE.iter_unpack(content[: len(content) // LINE.size * LINE.size])
