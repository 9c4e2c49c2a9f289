"""Deterministic ids: the same key and time always give the same id."""

from datetime import UTC, datetime, timedelta
from hashlib import sha256

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
MILLISECOND = timedelta(milliseconds=1)
TIME_BITS_MASK = (1 << 48) - 1
FREE_BITS = 74
"""The bits of a UUIDv7 besides its time, version and variant (RFC 9562, 5.7)."""


def derived_id(key: str, at: datetime) -> str:
    """A UUIDv7 with `at` as its time, to the millisecond, and other bits that depend on `key`.

    The same arguments give the same id in every process; ids sort by `at`.
    """
    free = int.from_bytes(sha256(key.encode("utf-8", "surrogatepass")).digest()) >> (
        256 - FREE_BITS
    )
    milliseconds = ((at - EPOCH) // MILLISECOND) & TIME_BITS_MASK
    high = milliseconds << 16 | 0x7 << 12 | free >> 62
    low = 0b10 << 62 | free & ((1 << 62) - 1)
    text = f"{high << 64 | low:032x}"
    return "-".join((text[:8], text[8:12], text[12:16], text[16:20], text[20:]))


def instant_of(id: str) -> datetime | None:
    """The time in a UUIDv7 in canonical form; None if the text is not a UUIDv7."""
    digits = id.replace("-", "")
    if len(id) != 36 or len(digits) != 32 or digits[12] != "7" or digits[16] not in "89ab":
        return None
    try:
        return EPOCH + int(digits[:12], 16) * MILLISECOND
    except (ValueError, OverflowError):
        return None
