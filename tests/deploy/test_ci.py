"""What runs before a commit and on a public host is what runs here."""

import re
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).parents[2]
GITHUB = ROOT / ".github"
MAKE = re.compile(r"^make ([a-z-]+)$", re.MULTILINE)


def read(path: Path) -> Any:
    return yaml.safe_load(path.read_text("utf-8"))


def project() -> dict[str, Any]:
    result: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    return result


def workflow() -> dict[str, Any]:
    result: dict[str, Any] = read(GITHUB / "workflows" / "ci.yml")
    return result


def make_targets() -> set[str]:
    return set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))


def rows() -> list[dict[str, str]]:
    result: list[dict[str, str]] = workflow()["jobs"]["test"]["strategy"]["matrix"]["include"]
    return result


def test_a_public_host_runs_what_ci_runs_here() -> None:
    called = {
        target
        for job in workflow()["jobs"].values()
        for step in job["steps"]
        for target in MAKE.findall(step.get("run", ""))
    }
    here = set(re.findall(r"\bmake ([a-z-]+)", (ROOT / ".ci" / "run").read_text()))
    assert here == {"installed", "test", "check"}
    assert here - {"installed"} <= called
    assert called <= make_targets()


def test_each_supported_version_of_python_is_tried() -> None:
    tried = sorted({row["python"] for row in rows()})
    named = [line.rpartition(" ")[2] for line in project()["classifiers"] if " 3." in line]
    assert tried == named == ["3.11", "3.12", "3.13", "3.14"]
    assert project()["requires-python"] == f">={tried[0]}"


def test_each_supported_version_of_the_servers_is_tried() -> None:
    assert {row["postgres"] for row in rows()} == {"14", "15", "16", "17", "18"}
    assert {row["mysql"].partition(":")[0] for row in rows()} == {"mariadb", "mysql"}
    assert all(row["mysql"].startswith("mysql:8.") for row in rows() if "mysql:" in row["mysql"])


def test_the_hooks_of_a_commit_call_the_projects_own_tools() -> None:
    hooks = [
        hook
        for repository in read(ROOT / ".pre-commit-config.yaml")["repos"]
        for hook in repository["hooks"]
        if repository["repo"] == "local"
    ]
    assert len(hooks) >= 4
    checked = (ROOT / "Makefile").read_text()
    for hook in hooks:
        program, *arguments = hook["entry"].split()
        assert hook["language"] == "system"
        if program == "make":
            assert set(arguments) <= make_targets()
        else:
            words = " ".join([program.replace(".venv/bin", "$(BIN)"), *arguments])
            assert words.removesuffix(" --force-exclude") in checked


@pytest.mark.parametrize("form", ["bug", "feature"])
def test_a_form_of_an_issue_has_what_a_host_needs(form: str) -> None:
    result = read(GITHUB / "ISSUE_TEMPLATE" / f"{form}.yml")
    assert result.keys() >= {"name", "description", "body"}
    fields = [part for part in result["body"] if part["type"] != "markdown"]
    assert len({part["id"] for part in fields}) == len(fields)
    assert all(part["attributes"]["label"] for part in fields)
    assert any(part.get("validations", {}).get("required") for part in fields)


def test_a_pull_request_is_held_to_what_contributing_says() -> None:
    template = (GITHUB / "pull_request_template.md").read_text("utf-8")
    assert set(re.findall(r"`make ([a-z-]+)`", template)) == {"test", "check"}
