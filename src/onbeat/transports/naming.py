"""Names of queues, in the characters that a broker allows."""

import hashlib
import string
from collections.abc import Mapping
from typing import Final

PLAIN: Final = frozenset(string.ascii_letters + string.digits)
DIGEST_CHARS: Final = 24  # 96 bits: no two long names meet by chance


def spelled(name: str, *, swaps: Mapping[str, str], mark: str, room: int) -> str:
    """`name` in ASCII letters, digits, and what stands in `swaps` for single characters.

    Another character becomes its code point between two of `mark`. Different names come out
    differently as long as a swap that holds `mark` begins with it and goes on with anything but a
    letter, and no swap is the beginning of another. What would be longer than `room` is cut and
    ends in a digest of the whole.
    """
    text = "".join(swaps.get(char) or spelled_char(char, mark) for char in name)
    if len(text) <= room:
        return text
    end = f"{mark}h{hashlib.sha256(name.encode()).hexdigest()[:DIGEST_CHARS]}"
    return text[: room - len(end)] + end


def spelled_char(char: str, mark: str) -> str:
    return char if char in PLAIN else f"{mark}x{ord(char):x}{mark}"
