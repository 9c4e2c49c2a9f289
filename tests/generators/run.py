"""Reads the OpenAPI document with the generators that people use, and uses a generated client.

`make generators`. Needs the network, Node and npm, so it is no part of `make test`, where
tests/interfaces/test_rest_documents.py holds the document to what these need.
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
from collections.abc import Iterator
from pathlib import Path

HERE = Path(__file__).parent
PLACE = HERE.parent.parent / ".run" / "generators"
PYTHON_GENERATOR = "openapi-python-client==0.29.1"
NODE_TOOLS = ("openapi-typescript@7.13.0", "typescript@5.9.3", "@redocly/cli@2.77.0")
ONBEAT = Path(sys.executable).parent / "onbeat"
START_SECONDS = 30


def said(command: list[object]) -> str:
    """What the command prints; a failure ends everything with it."""
    done = subprocess.run(
        [str(part) for part in command],
        capture_output=True,
        text=True,
        check=False,
        cwd=PLACE,
    )
    output = done.stdout + done.stderr
    if done.returncode:
        sys.exit(f"{command[0]} failed:\n{output}")
    return output


def refuse(text: str, *signs: str) -> None:
    if any(sign in text for sign in signs):
        sys.exit(text)


def python_client() -> Path:
    """The generated package, installed beside nothing of Onbeat's; answers with its Python."""
    python = PLACE / "venv" / "bin" / "python"
    if not python.exists():
        venv.create(PLACE / "venv", with_pip=True)
    said([python, "-m", "pip", "install", "--quiet", PYTHON_GENERATOR])
    generator = python.with_name("openapi-python-client")
    # Without its own formatting, which needs other tools, it has nothing to warn of.
    (PLACE / "config.yml").write_text("post_hooks: []\n")
    shutil.rmtree(PLACE / "client", ignore_errors=True)
    answer = said(
        [
            generator, "generate", "--path", "openapi.json", "--config", "config.yml",
            "--output-path", "client", "--fail-on-warning",
        ]
    )  # fmt: skip
    refuse(answer, "WARNING", "Warning", "ERROR")
    said([python, "-m", "pip", "install", "--quiet", "--force-reinstall", "--no-deps", "./client"])
    return python


def typescript() -> None:
    (PLACE / "package.json").write_text('{"private": true}')
    said(["npm", "install", "--silent", "--no-audit", "--no-fund", *NODE_TOOLS])
    said(["npx", "openapi-typescript", "openapi.json", "-o", "types.ts"])
    shutil.copy(HERE / "use_types.ts", PLACE)
    said(["npx", "tsc", "--noEmit", "--strict", "--target", "es2022", "use_types.ts"])


def lint() -> None:
    for document in ("openapi.json", "openapi.yml"):
        answer = said(["npx", "redocly", "lint", document])
        refuse(answer, "Warning was generated", "Error was generated")


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
        env={**os.environ, "ONBEAT_CONFIG": ""},
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
    (PLACE / "openapi.yml").write_text(said([ONBEAT, "openapi"]))
    (PLACE / "openapi.json").write_text(said([ONBEAT, "openapi", "--format", "json"]))
    python = python_client()
    print("openapi-python-client: read whole, no warning")
    with service() as url:
        print(said([python, HERE / "use_python_client.py", url]), end="")
    typescript()
    print("openapi-typescript: read whole, its types compile")
    lint()
    print("redocly: no error, no warning")


if __name__ == "__main__":
    main()
