"""A traceback in parts: own frames, frames of libraries, and the rest."""

import re
from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import Final

import msgspec

FRAME: Final = re.compile(r'\s*File "(?P<path>[^"]*)", line \d+')
LIBRARIES: Final = re.compile(r"site-packages|dist-packages|/lib/python\d|[\\/]Lib[\\/]|^<")
FRAME_LINES_MAX: Final = 1_000
"""Lines that are told apart; an error has no more characters than fit on fewer."""


class TracebackPart(msgspec.Struct, frozen=True):
    """Lines of one kind: `own`, `library` or `text`. `frames` counts those of libraries."""

    kind: str
    text: str
    frames: int = 0


def traceback_parts(error: str) -> Sequence[TracebackPart]:
    """The whole text, in order."""
    # Only at line feeds: other separators are shown as escapes.
    lines = error.rstrip("\n").split("\n") if error else []
    grouped = groupby(kinds(lines[:FRAME_LINES_MAX]), key=lambda one: one[0])
    parts = [part_of(kind, [line for _, line in group]) for kind, group in grouped]
    rest = lines[FRAME_LINES_MAX:]
    return [*parts, TracebackPart("text", "\n".join(rest))] if rest else parts


def kinds(lines: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Each line with its kind; those of a frame are further in than its first."""
    kind, depth = "text", 0
    for line in lines:
        found = FRAME.match(line)
        indent = len(line) - len(line.lstrip())
        if found is not None:
            kind = "library" if LIBRARIES.search(found["path"]) else "own"
            depth = indent
        elif indent <= depth:
            kind, depth = "text", 0
        yield kind, line


def part_of(kind: str, lines: Sequence[str]) -> TracebackPart:
    frames = sum(FRAME.match(line) is not None for line in lines)
    return TracebackPart(kind, "\n".join(lines), frames if kind == "library" else 0)
