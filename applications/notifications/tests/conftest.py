from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import settings

from notifications.config import Config
from receivers import Mails, Posts, mail_server, post_server
from world import KEY, TABLES, World, execute, postgres

# The same examples at each run, so that a run that was green is green again.
settings.register_profile("quick", max_examples=60, derandomize=True, deadline=None)
settings.load_profile("quick")


@pytest.fixture
def config(tmp_path: Path) -> Config:
    return Config(database=f"sqlite:///{tmp_path}/notices.db", link_keys=(KEY,))


@pytest.fixture(scope="session")
def server() -> Iterator[World]:
    """A database of our own, with the tables, which is dropped at the end."""
    with postgres() as url:
        yield World(Config(database=url, link_keys=(KEY,)))


@pytest.fixture(params=["sqlite", "postgres"])
def world(request: pytest.FixtureRequest, config: Config) -> World:
    """Without rows, on each kind of database."""
    if request.param == "sqlite":
        return World(config)
    result: World = request.getfixturevalue("server")
    execute(f"TRUNCATE {', '.join(TABLES)}", result.config.database)
    return result


@pytest.fixture
def sqlite(config: Config) -> World:
    """In a file, for what does not differ between databases."""
    return World(config)


@pytest.fixture
def fleet() -> Iterator[World]:
    """On PostgreSQL, with a database for itself, which is also the store of its jobs."""
    with postgres() as url:
        yield World(Config(database=url, link_keys=(KEY,)))


@pytest.fixture
def mails() -> Iterator[Mails]:
    with mail_server() as server:
        yield server


@pytest.fixture
def posts() -> Iterator[Posts]:
    with post_server() as server:
        yield server
