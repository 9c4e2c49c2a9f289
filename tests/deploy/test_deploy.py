"""The files under deploy/: what they pin, what they allow, and that the service lives with it."""

import json
import os
import re
import runpy
import secrets
import subprocess
import sys
import tomllib
import urllib.request
from pathlib import Path
from typing import Any

import pytest
import yaml

from deploy.start import image_environment, instructions
from free_ports import free_port
from onbeat.model.role import Role
from transports.servers import installed, wait_until

ROOT = Path(__file__).parents[2]
DEPLOY = ROOT / "deploy"
PIN = re.compile(r"^([A-Za-z0-9._-]+)(?:\[[^\]]*\])?==([^\s;\\]+)", re.MULTILINE)


def normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def pins(path: Path) -> dict[str, str]:
    return {normal(name): version for name, version in PIN.findall(path.read_text())}


def test_the_unit_leaves_little_to_an_attacker() -> None:
    analyze = installed("systemd-analyze", "systemd", "no setting")
    command = [analyze, "security", "--offline=true", "--no-pager", str(DEPLOY / "onbeat.service")]
    report = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    score = re.search(r"exposure level for onbeat.service: ([\d.]+)", report)
    assert score, report
    assert float(score[1]) <= 2.0


def test_every_pinned_package_has_a_hash() -> None:
    blocks = re.split(r"\n(?=\S)", (DEPLOY / "requirements.txt").read_text().strip())
    assert len(blocks) > 30
    assert [block.split()[0] for block in blocks if "--hash=sha256:" not in block] == []


def test_production_has_the_versions_that_were_tested() -> None:
    tested = pins(ROOT / "constraints.txt")
    production = pins(DEPLOY / "requirements.txt")
    assert {name: tested.get(name) for name in production} == production


def test_production_has_what_the_image_needs() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = project["optional-dependencies"]
    makefile = (ROOT / "Makefile").read_text("utf-8")
    named = re.search(r"^IMAGE_EXTRAS := (.*)$", makefile, re.MULTILINE)[1].split()
    wanted = list(project["dependencies"])
    for extra in ("http", "encryption", *named):
        wanted += extras[extra]
    names = {normal(re.match(r"[A-Za-z0-9._-]+", line)[0]) for line in wanted} - {"onbeat"}
    assert names - pins(DEPLOY / "requirements.txt").keys() == set()


def test_no_file_names_a_package_index() -> None:
    files = [path for path in DEPLOY.rglob("*") if path.is_file()]
    for path in [*files, ROOT / "constraints.txt"]:
        assert not re.search(r"--(extra-)?index-url|find-links|file://", path.read_text()), path


def test_the_image_runs_as_a_numbered_user_on_a_base_that_can_be_pinned() -> None:
    lines = (DEPLOY / "Dockerfile").read_text().splitlines()
    assert [line for line in lines if line.startswith("FROM")] == [
        "FROM ${BASE} AS build",
        "FROM ${BASE}",
    ]
    assert "ARG BASE=python:3.12-slim-bookworm" in lines
    users = [line for line in lines if line.startswith("USER")]
    assert users == ["USER 10001:10001"]
    assert any("--require-hashes" in line for line in lines)


@pytest.mark.parametrize("name", ["migrate", *Role])
def test_containers_have_a_read_only_root_and_no_rights(name: str) -> None:
    service = yaml.safe_load((DEPLOY / "compose.yaml").read_text())["services"][name]
    assert service["read_only"] is True
    assert service["cap_drop"] == ["ALL"]
    assert service["security_opt"] == ["no-new-privileges:true"]
    assert service["mem_limit"]
    assert service["pids_limit"]


SERVE = """
mount -t tmpfs tmpfs "$1" && mount -o remount,bind,ro / && cd "$1" || exit 1
if touch "$4/written" 2>/dev/null; then exit 2; fi
exec "$2" -m onbeat up --store "sqlite:///$1/onbeat.db" --port "$3"
"""


def test_the_image_lives_with_a_read_only_root_and_finds_itself_healthy(tmp_path: Path) -> None:
    data = tmp_path / "data"
    data.mkdir()
    port, metrics_port = free_port(), free_port()
    key = {"ONBEAT_API__KEYS": secrets.token_hex(24), "ONBEAT_METRICS__PORT": str(metrics_port)}
    (check,) = (rest for name, rest in instructions() if name == "HEALTHCHECK")
    command_of_check = json.loads(check[check.index("[") :].replace("9464", str(metrics_port)))
    command = ["unshare", "--mount", "--propagation", "private", "sh", "-c", SERVE, "sh"]
    with subprocess.Popen(
        [*command, str(data), str(Path(sys.executable).absolute()), str(port), str(tmp_path)],
        env={**os.environ, **image_environment(), **key, "PYTHONDONTWRITEBYTECODE": "1"},
    ) as process:
        try:
            wait_until(lambda: is_ready(port), process, "a service with a read-only root")
            subprocess.run([sys.executable, *command_of_check[1:]], check=True, timeout=60)
        finally:
            process.terminate()
    assert process.returncode == 0


def is_ready(port: int) -> bool:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/readyz", timeout=5) as answer:
            return json.load(answer)["status"] == "ready"
    except OSError:
        return False


AUDIT = runpy.run_path(str(DEPLOY / "audit.py"))
FINE = {"name": "click", "version": "8.5.1", "vulns": []}
BAD = {"name": "jinja2", "version": "3.1.4", "vulns": [{"id": "CVE-2024-56201"}]}
UNKNOWN = {"name": "apsw", "skip_reason": "Dependency not found"}


@pytest.mark.parametrize(
    ("answer", "strict", "status", "line"),
    [
        (None, False, 0, "NOT CHECKED, no advisory source can be reached from here"),
        (None, True, 3, "NOT CHECKED, no advisory source can be reached from here"),
        ([FINE], True, 0, "none known for 1 packages"),
        ([FINE, UNKNOWN], False, 0, "not known to the source, so not checked: apsw"),
        ([FINE, UNKNOWN], True, 3, "not known to the source, so not checked: apsw"),
        ([FINE, BAD], False, 1, "jinja2 3.1.4: CVE-2024-56201"),
    ],
)
def test_the_audit_never_takes_silence_for_safety(
    answer: list[dict[str, Any]] | None, strict: bool, status: int, line: str
) -> None:
    result, lines = AUDIT["verdict"](answer, strict=strict)
    assert result == status
    assert line in lines
