"""Journals that are on the disk before anything goes on, and how they are read again."""

import os
from pathlib import Path

from chaos.verdict import Run
from crash.invariants import lines


def journal(file: Path, *words: object) -> None:
    """One write of one line: it is there whole or not at all."""
    with file.open("ab", buffering=0) as result:
        result.write((" ".join(map(str, words)) + "\n").encode())
        os.fsync(result.fileno())


def runs(place: Path) -> list[Run]:
    ends = {(id, token, name): float(at) for id, token, name, at in lines(place / "ended")}
    return [
        Run(id, int(token), name, float(at), ends.get((id, token, name)))
        for id, token, name, at in lines(place / "began")
    ]
