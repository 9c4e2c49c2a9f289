"""The folder of uploads on the disk."""

import logging
import os
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from itertools import islice
from pathlib import Path
from typing import Final, Literal

from credits.uploads.addresses import is_dated

log = logging.getLogger(__name__)

PORTION: Final = 500
STORE_TRIES: Final = 3

Fate = Literal["removed", "missing", "young", "refused"]


def old_files(root: Path, before: datetime) -> Iterator[list[str]]:
    """Paths of the dated files that were last written before this instant, in portions.

    Links are not followed.
    """
    found = (path for path in dated_files(root) if is_older(root / path, before))
    while portion := list(islice(found, PORTION)):
        yield portion


def dated_files(root: Path) -> Iterator[str]:
    for folder, _, names in os.walk(root):
        for name in names:
            path = (Path(folder) / name).relative_to(root).as_posix()
            if is_dated(path):
                yield path


def is_older(file: Path, before: datetime) -> bool:
    try:
        return datetime.fromtimestamp(file.lstat().st_mtime, UTC) < before
    except FileNotFoundError:
        return False


def remove(root: Path, path: str, before: datetime) -> Fate:
    """Remove a file that is older than this instant. What leads out of the folder is refused."""
    file = root / path
    if not is_dated(path) or not is_below(root, file.parent):
        log.warning("%s is outside of the folder of uploads, and left alone", path)
        return "refused"
    if not os.path.lexists(file):
        return "missing"
    if not is_older(file, before):
        return "young"
    try:
        file.unlink()
    except FileNotFoundError:
        return "missing"
    except OSError as error:
        log.warning("%s cannot be removed: %s", path, error)
        return "refused"
    return "removed"


def is_below(root: Path, folder: Path) -> bool:
    """Whether the folder really lies in `root`; one behind links in a circle does not."""
    try:
        return folder.resolve().is_relative_to(root.resolve())
    except (OSError, RuntimeError):
        return False


def remove_empty_folders(root: Path, at: datetime, stopped: Callable[[], bool]) -> int:
    """Remove the empty folders below `root`, inner ones first, and tell how many.

    Those of these days stay: an upload may just have made its folder. Ends early when `stopped`.
    """
    kept, result = recent(at), 0
    for folder, _, _ in os.walk(root, topdown=False):
        if stopped():
            break
        path = Path(folder)
        if path == root or path.relative_to(root).as_posix() in kept:
            continue
        result += remove_if_empty(path)
    return result


def recent(at: datetime) -> set[str]:
    """The folders into which uploads go on these days, in any time zone."""
    return {f"{at + timedelta(days=days):%Y/%m/%d}" for days in range(-2, 2)}


def remove_if_empty(folder: Path) -> bool:
    try:
        with os.scandir(folder) as entries:
            if any(entries):
                return False
        folder.rmdir()  # refused by the system if something came meanwhile
    except OSError as error:
        log.warning("%s is left alone: %s", folder, error)
        return False
    return True


def store(root: Path, path: str, content: bytes) -> None:
    """Keep a new upload, even if its folder is removed as empty between the two steps."""
    file = root / path
    for left in reversed(range(STORE_TRIES)):
        file.parent.mkdir(parents=True, exist_ok=True)
        try:
            file.write_bytes(content)
        except FileNotFoundError:
            if not left:
                raise
        else:
            return
