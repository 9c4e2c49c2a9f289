"""Clocks that are set while programs run, as an operator or a time server does.

What a program reads as the time of day is moved; its monotonic clock is not. The library of Debian
for this, libfaketime, fails `time.sleep` of Python from 3.11 on, so a small one is compiled.
"""

import shutil
import struct
import subprocess
from pathlib import Path
from typing import Final

SOURCE: Final = Path(__file__).with_name("clock.c")


def library(folder: Path) -> Path | None:
    """Compiled into this folder; None where there is no compiler."""
    compiler = shutil.which("cc") or shutil.which("gcc")
    if compiler is None:
        return None
    result = folder / "clock.so"
    command = [compiler, "-O2", "-shared", "-fPIC", "-o", str(result), str(SOURCE)]
    subprocess.run(command, check=True)
    return result


class Clock:
    """The time of day of every process that is started with its `environment`."""

    def __init__(self, library: Path, file: Path) -> None:
        self.file = file
        self.environment = {"LD_PRELOAD": str(library), "CLOCK_FILE": str(file)}
        self.set(0.0)
        file.chmod(0o644)

    def set(self, ahead: float) -> None:
        """So many seconds ahead of the true time, at once."""
        content = struct.pack("=q", int(ahead * 1_000_000))
        with self.file.open("r+b" if self.file.exists() else "wb", buffering=0) as file:
            file.write(content)
