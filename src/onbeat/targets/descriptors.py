"""Whether this process can open another file or socket."""

import os
import sys
from typing import Final

# Descriptors needed to load a library, which may silently work without modules it cannot open.
LOADING_DESCRIPTORS: Final = 16


def descriptors_max() -> int | None:
    """The limit on open files and sockets of this process; None if there is no limit."""
    if sys.platform == "win32":
        return None
    import resource  # noqa: PLC0415  not available on Windows

    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return None if soft == resource.RLIM_INFINITY else soft


def check_descriptors(count: int = 1) -> None:
    """Raises `OSError` unless `count` more descriptors can be opened.

    Some libraries report such a failure differently: as an unknown host name or a missing module.
    """
    result: list[int] = []
    try:
        for _ in range(count):
            result.append(os.open(os.devnull, os.O_RDONLY))  # noqa: PERF401  kept for the close
    finally:
        for each in result:
            os.close(each)
