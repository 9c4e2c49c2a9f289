"""Secrets of channels. They are read at each use, so a rotated one needs no restart."""

import os
from pathlib import Path
from typing import Final

from onbeat.model.channel import Secret
from onbeat.model.errors import Misconfigured

SECRET_BYTES_MAX: Final = 65_536


def read_secret(secret: Secret) -> str:
    """The text without surrounding blanks. Raises `Misconfigured`, without the secret."""
    if secret.text is not None:
        return secret.text
    if secret.variable is not None:
        text = os.environ.get(secret.variable, "").strip()
        if not text:
            raise Misconfigured(f"the variable {secret.variable} is not set", "channels")
        return text
    return read_file(Path(secret.file or ""))


def read_file(path: Path) -> str:
    try:
        with path.open("rb") as file:
            text = file.read(SECRET_BYTES_MAX).decode().strip()
    except (OSError, UnicodeError) as error:
        reason = os.strerror(error.errno) if isinstance(error, OSError) and error.errno else error
        raise Misconfigured(f"{path} cannot be read: {reason}", "channels") from None
    if not text:
        raise Misconfigured(f"{path} is empty", "channels")
    return text
