from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import settings

from credits.config import Config
from world import World, mariadb

# The same examples at each run, so that a run that was green is green again.
settings.register_profile("quick", max_examples=60, derandomize=True, deadline=None)
settings.load_profile("quick")


@pytest.fixture
def config(tmp_path: Path) -> Config:
    return Config(database=f"sqlite:///{tmp_path}/game.db", uploads=tmp_path / "static/uploads")


@pytest.fixture(scope="session")
def server() -> Iterator[str]:
    """A schema of our own, with the tables, which is dropped at the end."""
    with mariadb() as url:
        World(Config(database=url))
        yield url


@pytest.fixture(params=["sqlite", "mariadb"])
def world(request: pytest.FixtureRequest, config: Config) -> World:
    """A game without rows, on each kind of database."""
    if request.param == "sqlite":
        return World(config)
    result = World(replace(config, database=request.getfixturevalue("server")), is_new=False)
    result.empty()
    return result


@pytest.fixture
def sqlite(config: Config) -> World:
    """A game in a file, for what does not differ between databases."""
    return World(config)
