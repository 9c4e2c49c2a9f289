"""Encodes names of queues in the characters that a broker allows."""

import hashlib
import string
from collections.abc import Mapping
from typing import Final

PLAIN: Final = frozenset(string.ascii_letters + string.digits)
DIGEST_CHARS: Final = 24  # 96 bits: collisions of long names are negligible


def encode_name(name: str, *, swaps: Mapping[str, str], mark: str, room: int) -> str:
    """`name` in ASCII letters, digits, and the replacements in `swaps` for single characters.

    Any other character becomes its code point between two `mark`s. Different names have different
    results if every swap that contains `mark` begins with it and continues with a non-letter, and
    no swap is a prefix of another. A result longer than `room` is cut and ends in a digest of the
    whole.
    """
    text = "".join(swaps.get(char) or encode_char(char, mark) for char in name)
    if len(text) <= room:
        return text
    end = f"{mark}h{hashlib.sha256(name.encode()).hexdigest()[:DIGEST_CHARS]}"
    return text[: room - len(end)] + end


def encode_char(char: str, mark: str) -> str:
    return char if char in PLAIN else f"{mark}x{ord(char):x}{mark}"
