"""Programs that tests run as processes of their own."""

import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from conditions import PATIENCE, eventually_here

HERE = Path(__file__).parent.parent


class Program:
    def __init__(self, process: subprocess.Popen[bytes], log: Path) -> None:
        self.process = process
        self.log = log

    @property
    def pid(self) -> int:
        return self.process.pid

    def said(self, text: str, times: int = 1) -> bool:
        return self.log.read_text().count(text) >= times

    def wait_to_say(self, text: str, times: int = 1, within: float = PATIENCE) -> None:
        def said() -> bool:
            assert self.process.poll() is None or self.said(text, times), self.log.read_text()
            return self.said(text, times)

        eventually_here(said, f"{text!r} is said", within)

    def signal(self, number: int) -> None:
        self.process.send_signal(number)

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()

    def ended(self, within: float = PATIENCE) -> int:
        """The exit code. One that does not end tells where its threads stand."""
        try:
            return self.process.wait(within)
        except subprocess.TimeoutExpired:
            self.signal(signal.SIGABRT)
            self.process.wait()
            raise AssertionError(f"it has not ended: {self.log.read_text()}") from None


@contextlib.contextmanager
def program(source: str, tmp_path: Path, *args: str) -> Iterator[Program]:
    """Run the source text as a program; what it prints can be waited for."""
    number = len(list(tmp_path.glob("program-*.log")))
    script, log = tmp_path / "program.py", tmp_path / f"program-{number}.log"
    # One that is just being started must not find it empty.
    if not script.exists():
        script.write_text(source)
    paths = os.pathsep.join(filter(None, [str(HERE), os.environ.get("PYTHONPATH")]))
    environment = {**os.environ, "PYTHONPATH": paths, "PYTHONUNBUFFERED": "1"}
    environment["PYTHONFAULTHANDLER"] = "1"
    with log.open("wb") as out:
        process = subprocess.Popen(
            [Path(sys.executable).absolute(), "-W", "error", str(script), *args],
            stdout=out,
            stderr=subprocess.STDOUT,
            env=environment,
            cwd=tmp_path,
        )
    running = Program(process, log)
    try:
        yield running
    finally:
        running.kill()
