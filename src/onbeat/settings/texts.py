"""Reads the text of a file of settings."""

import os
from pathlib import Path

from onbeat.model.errors import Misconfigured


def read_text(path: Path) -> str:
    """The text, in UTF-8. Raises `Misconfigured` where the file cannot be read."""
    try:
        return path.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        reason = os.strerror(error.errno) if isinstance(error, OSError) and error.errno else error
        raise Misconfigured(f"{path} cannot be read: {reason}") from error
