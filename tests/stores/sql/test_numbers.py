"""The numbers in front of the names of migrations, in every store that has some."""

from importlib.resources import files

import pytest


@pytest.mark.parametrize("store", ["sqlite", "postgres", "mysql"])
def test_migrations_are_numbered_without_a_gap(store: str) -> None:
    folder = files(f"onbeat.stores.{store}") / "migrations"
    names = sorted(entry.name for entry in folder.iterdir() if entry.name.endswith(".sql"))
    assert [int(name.split("_")[0]) for name in names] == [*range(1, len(names) + 1)]
