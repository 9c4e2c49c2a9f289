"""The applications live on what any program may use of Onbeat, and stay out of its wheel."""

import ast
import re
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

import onbeat
import onbeat.types
from syntax import syntax_of

ROOT = Path(__file__).parents[2]
APPLICATIONS = sorted(path.parent for path in ROOT.glob("applications/*/pyproject.toml"))
FILES = sorted(ROOT.glob("applications/*/**/*.py"))


def test_there_are_applications() -> None:
    assert APPLICATIONS
    assert {file.relative_to(ROOT).parts[1] for file in FILES} == {
        folder.name for folder in APPLICATIONS
    }


def imports(path: Path) -> Iterator[tuple[str, str]]:
    """The module and the name of each import; the name is empty in `import MODULE`."""
    for node in ast.walk(syntax_of(path.read_text())):
        if isinstance(node, ast.Import):
            yield from ((alias.name, "") for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield from ((node.module or "", alias.name) for alias in node.names)


def is_public(module: str, name: str) -> bool:
    if module.partition(".")[0] != "onbeat":
        return True
    if module == "onbeat":
        return not name or name in onbeat.__all__ or name in {"testing", "types"}
    if module == "onbeat.types":
        return not name or name in onbeat.types.__all__
    return module == "onbeat.testing" or module.startswith("onbeat.testing.")


@pytest.mark.parametrize("folder", APPLICATIONS, ids=lambda folder: folder.name)
def test_an_application_imports_only_public_names(folder: Path) -> None:
    below = [
        f"{path.relative_to(ROOT)}: from {module} import {name}"
        for path in sorted(folder.rglob("*.py"))
        for module, name in imports(path)
        if not is_public(module, name)
    ]
    assert below == []


@pytest.mark.parametrize("folder", APPLICATIONS, ids=lambda folder: folder.name)
def test_an_application_does_not_reach_behind_an_onbeat(folder: Path) -> None:
    """`beat.backend` is public, but its own names may change."""
    reached = [
        f"{path.relative_to(ROOT)}:{node.lineno}"
        for path in sorted(folder.rglob("*.py"))
        for node in ast.walk(syntax_of(path.read_text()))
        if isinstance(node, ast.Attribute) and node.attr == "backend"
    ]
    assert reached == []


def test_onbeat_knows_no_application() -> None:
    names = {path.name for folder in APPLICATIONS for path in (folder / "src").iterdir()}
    found = [
        f"{path.relative_to(ROOT)}: {module}"
        for path in sorted((ROOT / "src").rglob("*.py"))
        for module, _ in imports(path)
        if module.partition(".")[0] in names
    ]
    assert found == []


def test_the_wheel_has_only_onbeat() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    assert project["tool"]["hatch"]["build"]["targets"]["wheel"] == {"packages": ["src/onbeat"]}


@pytest.mark.parametrize("folder", APPLICATIONS, ids=lambda folder: folder.name)
def test_an_application_is_a_project_of_its_own_that_is_checked_as_onbeat_is(folder: Path) -> None:
    own = tomllib.loads((folder / "pyproject.toml").read_text())
    whole = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]
    assert own["project"]["name"] == folder.name
    assert own["tool"]["pytest"]["ini_options"]["filterwarnings"] == ["error"]
    assert own["tool"].keys() == {"hatch", "pytest"}, "linters and types have one configuration"
    roots = [each["root"] for each in whole["pyright"]["executionEnvironments"]]
    assert f"applications/{folder.name}/src" in roots
    assert (folder / "src" / folder.name / "py.typed").exists()


@pytest.mark.parametrize("folder", APPLICATIONS, ids=lambda folder: folder.name)
def test_the_tables_of_an_application_name_what_there_is(folder: Path) -> None:
    """Its README says which module and which test meet a row: each must exist."""
    page = (folder / "README.md").read_text()
    tests = "\n".join(path.read_text() for path in folder.glob("tests/**/*.py"))
    known = set(re.findall(r"def (test_\w+)", tests))
    named = set(re.findall(r"`(test_\w+)`", page))
    assert named
    assert named - known == set()
    modules = set(re.findall(r"`((?:\w+/)*\w+\.py)`", page))
    assert modules
    assert [name for name in sorted(modules) if not list(folder.glob(f"**/{name}"))] == []


ROWS = {
    "backoffice": [("S1-", 59), ("S1-D", 43), ("S1-A", 15)],
    "credits": [("S5-", 42), ("S5-D", 30), ("S5-A", 15)],
    "notifications": [("S4-", 23), ("S4-D", 11), ("S4-A", 10)],
}


@pytest.mark.parametrize("folder", APPLICATIONS, ids=lambda folder: folder.name)
def test_the_tables_of_an_application_leave_no_row_out(folder: Path) -> None:
    """Of the rows, defects and scenarios of the system whose place it takes."""
    page = (folder / "README.md").read_text()
    rows = [f"{name}{n:02}" for name, last in ROWS.get(folder.name, []) for n in range(1, last + 1)]
    assert [row for row in rows if not re.search(rf"{row}\b", page)] == []
