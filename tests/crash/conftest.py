"""Folders for journals, each with a store of its own."""

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from stores.mysql import server as mysql
from stores.postgres import server as postgres


@contextlib.contextmanager
def store_url(kind: str, folder: Path) -> Iterator[str]:
    match kind:
        case "sqlite":
            yield f"sqlite:///{folder}/onbeat.db"
        case "postgres":
            with postgres.database(f"onbeat_fleet_{os.getpid()}") as url:
                yield url
        case _:
            with mysql.database() as url:
                yield url


@pytest.fixture(params=["sqlite", "postgres", "mysql"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Path]:
    """The folder in which the programs run; its file `store` names their store."""
    with store_url(request.param, tmp_path) as url:
        (tmp_path / "store").write_text(url)
        yield tmp_path
