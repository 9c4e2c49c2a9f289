"""`onbeat cell`: what it shows of a map of cells, and the fence before a cell that moves."""

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from onbeat.cli.main import root

MAP = """
version = {version}
[cells.a]
url = "sqlite:///{folder}/a.db"
slots = "0-255"
[cells.b]
url = "{other}"
slots = "256-1023"
"""
NOBODY = "postgresql://onbeat:secret@127.0.0.1:1/onbeat"


@pytest.fixture(autouse=True)
def wide(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "400")


@pytest.fixture
def store(tmp_path: Path) -> str:
    return f"cells:///{write_map(tmp_path)}"


def write_map(folder: Path, version: int = 3, other: str = "") -> Path:
    path = folder / "cells.toml"
    other = other or f"sqlite:///{folder}/b.db"
    path.write_text(MAP.format(version=version, folder=folder, other=other))
    return path


def onbeat(*args: str, code: int = 0) -> Result:
    result = CliRunner().invoke(root, list(args))
    assert result.exit_code == code, result.output
    return result


def test_cells_are_listed_with_what_they_know(store: str) -> None:
    before = json.loads(onbeat("cell", "list", "--store", store, "--json").stdout)
    assert before["version"] == 3
    assert [(one["name"], one["slots"], one["seen"]) for one in before["cells"]] == [
        ("a", 256, 0),
        ("b", 768, 0),
    ]
    onbeat("stats", "--store", store)
    text = onbeat("cell", "list", "--store", store).stdout
    assert [line.split()[-3:] for line in text.splitlines()[1:]] == [["3", "0", "ok"]] * 2


def test_a_migration_of_a_front_tells_of_each_cell(store: str) -> None:
    first, again = (
        json.loads(onbeat("migrate", "--store", store, "--json").stdout) for _ in range(2)
    )
    assert (first["store"], first["migrated"], again["migrated"]) == (store, True, False)
    assert [Path(one["store"]).name for one in first["cells"]] == ["a.db", "b.db"]
    assert [(one["from"], one["migrated"]) for one in first["cells"]] == [(0, True)] * 2
    assert [one["from"] for one in again["cells"]] == [one["to"] for one in first["cells"]]
    assert onbeat("migrate", "--store", store).stdout.count("is up to date: it had schema") == 2


def test_a_cell_that_does_not_answer_is_told_without_its_password(tmp_path: Path) -> None:
    path = write_map(tmp_path, other=NOBODY)
    text = onbeat("cell", "list", "--store", f"cells:///{path}", code=1).stdout
    (line,) = [line for line in text.splitlines() if line.startswith("b")]
    assert "127.0.0.1:1" in line
    assert not line.endswith("ok")
    assert "secret" not in text


def test_a_fence_stops_fronts_with_the_older_map(tmp_path: Path, store: str) -> None:
    onbeat("stats", "--store", store)
    said = onbeat("cell", "fence", "--store", f"sqlite:///{tmp_path}/a.db", "--map-version", "4")
    assert "below version 4" in said.stdout
    text = onbeat("cell", "list", "--store", store, code=1).stdout
    assert "knows a newer map" in text
    refused = onbeat("stats", "--store", store, code=2)
    assert "cell a was used with version 4 already" in str(refused.output) + str(refused.exception)
    write_map(tmp_path, version=4)
    onbeat("stats", "--store", store)


def test_a_fence_is_for_one_cell_and_a_list_for_a_map(tmp_path: Path, store: str) -> None:
    assert "name the store of one cell" in refusal("fence", "--store", store, "--map-version", "4")
    assert "name the map of cells" in refusal("list", "--store", f"sqlite:///{tmp_path}/a.db")


def refusal(*args: str) -> str:
    result = CliRunner().invoke(root, ["cell", *args])
    assert result.exit_code != 0
    return result.output + str(result.exception)
