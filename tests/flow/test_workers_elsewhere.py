"""The example workers, each in its own language, against a real service."""

import json
import shutil
import sys
import urllib.request
from pathlib import Path
from typing import Any

import pytest

from conditions import eventually_here
from docs.services import running, service

WORKERS = Path(__file__).parents[2] / "examples" / "workers"
COMMANDS = {
    "worker.py": [sys.executable, "-I"],
    "worker.mjs": ["node"],
    "worker.sh": ["sh"],
}
# Where there is no such runtime, its worker is documentation; Python's is always run.
HERE = [name for name, (program, *_) in COMMANDS.items() if shutil.which(program)]


def ask(port: int, method: str, path: str, body: object = None) -> dict[str, Any]:
    request = urllib.request.Request(
        f"http://127.0.0.1:{port}{path}",
        json.dumps(body).encode() if body is not None else None,
        {"Content-Type": "application/json"},
        method=method,
    )
    with urllib.request.urlopen(request, timeout=10) as response:
        return json.load(response)


def ended(port: int, id: str) -> dict[str, Any]:
    def look() -> dict[str, Any] | None:
        job = ask(port, "GET", f"/api/jobs/{id}")
        return job if job["state"] in {"succeeded", "failed"} else None

    return eventually_here(look, f"{id} ended")


def test_python_is_here_at_least() -> None:
    assert "worker.py" in HERE


@pytest.mark.parametrize("name", HERE)
def test_a_worker_of_another_language_runs_jobs(tmp_path: Path, name: str) -> None:
    command = [*COMMANDS[name], str(WORKERS / name)]
    with service(tmp_path) as port:
        body = {"task": "export", "kwargs": {"objectID": 23}, "retry": {"attempts_max": 1}}
        first = ask(port, "POST", "/api/jobs", body)["id"]
        with running([*command, f"http://127.0.0.1:{port}"], tmp_path):
            done = ended(port, first)
            later = ask(port, "POST", "/api/jobs", body | {"kwargs": {"objectID": 24}})["id"]
            again = ended(port, later)
    assert (done["state"], done["result"], done["attempt"]) == ("succeeded", {"file": "23.csv"}, 1)
    assert again["result"] == {"file": "24.csv"}


@pytest.mark.parametrize("name", [name for name in HERE if name != "worker.sh"])
def test_what_a_task_raises_is_a_failed_attempt(tmp_path: Path, name: str) -> None:
    command = [*COMMANDS[name], str(WORKERS / name)]
    with service(tmp_path) as port:
        body = {
            "task": "export",
            "kwargs": {"objectID": 1},
            "retry": {"attempts_max": 2, "delay": 0},
        }
        if name == "worker.py":
            body["kwargs"] = {"nonsense": 1}
        else:
            body["kwargs"] = {"objectID": 1, "format": {"toString": None}}
        id = ask(port, "POST", "/api/jobs", body)["id"]
        with running([*command, f"http://127.0.0.1:{port}"], tmp_path):
            job = ended(port, id)
    assert (job["state"], job["attempt"], len(job["attempts"])) == ("failed", 2, 2)
    assert "TypeError" in job["error"]
