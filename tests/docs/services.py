"""Programs of the documentation, really started, and stopped by a signal."""

import contextlib
import os
import signal
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from pathlib import Path

from conditions import eventually_here
from free_ports import free_port

BIN = Path(sys.executable).parent
START_WITHIN = 60.0


def environment(folder: Path) -> dict[str, str]:
    """A reader's own: the commands of this installation, no settings, no colours."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("ONBEAT_")}
    paths = os.pathsep.join([str(folder / "bin"), str(BIN), kept.get("PATH", os.defpath)])
    return kept | {"PATH": paths, "HOME": str(folder), "NO_COLOR": "1", "PYTHONUNBUFFERED": "1"}


@contextlib.contextmanager
def running(command: list[str], folder: Path) -> Iterator[subprocess.Popen[bytes]]:
    """Started for the block, then asked to stop, which it has to do with exit code 0."""
    log = folder / f"{Path(command[-1]).name}.log"
    with (
        log.open("wb") as sink,
        subprocess.Popen(
            command,
            cwd=folder,
            env=environment(folder),
            stdout=sink,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        ) as process,
    ):
        try:
            yield process
            process.send_signal(signal.SIGTERM)
            code = process.wait(START_WITHIN)
            assert code == 0, f"{command} ended with {code}:\n{log.read_text()}"
        except BaseException:
            # What it has started itself ends with it only if it is asked.
            process.terminate()
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(START_WITHIN)
            raise
        finally:
            if process.poll() is None:
                process.kill()


@contextlib.contextmanager
def service(folder: Path, *arguments: str) -> Iterator[int]:
    """`onbeat up`, ready; the answer is its port."""
    port = free_port()
    command = [str(BIN / "onbeat"), "up", *arguments, "--port", str(port)]
    with running(command, folder) as process:
        eventually_here(lambda: is_ready(process, port), f"{command} is ready", START_WITHIN)
        yield port


def is_ready(process: subprocess.Popen[bytes], port: int) -> bool:
    assert process.poll() is None, f"it ended with {process.returncode} before it was ready"
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/readyz", timeout=5) as answer:
            return answer.status == 200
    except OSError:
        return False
