"""The page of deadlines, held against the bounds of the code."""

import re
from datetime import timedelta
from typing import Any

import pytest

from docs.pages import ROOT
from onbeat import service
from onbeat.api.options import ApiOptions
from onbeat.model import limits
from onbeat.operations import remote_workers
from onbeat.stores.mysql import connection as mysql
from onbeat.stores.mysql import enqueue as mysql_enqueue
from onbeat.stores.mysql import migrate as mysql_migrate
from onbeat.stores.mysql import transaction as mysql_transaction
from onbeat.stores.postgres import connection as postgres
from onbeat.stores.postgres import migrate as postgres_migrate
from onbeat.stores.sql import pool
from onbeat.stores.sqlite import errors as sqlite

PAGE = (ROOT / "docs/reference/deadlines.md").read_text("utf-8")
ROW = re.compile(r"^\| (for [^|]+) \| `(\w+)` ([\d.]+) s \| [^|]+ \|$", re.MULTILINE)
WHERE = {
    "Requests": (limits, ApiOptions(), remote_workers, service),
    "SQLite": (sqlite,),
    "PostgreSQL": (postgres, pool, postgres_migrate),
    "MariaDB and MySQL": (mysql, pool, mysql_enqueue, mysql_migrate, mysql_transaction),
}
SECTIONS = {
    title: ROW.findall(text)
    for title, text in re.findall(r"## (.+)\n([^#]*)", PAGE)
    if title in WHERE
}


def seconds_of(value: Any) -> Any:
    return value.total_seconds() if isinstance(value, timedelta) else float(value)


def test_every_row_is_read() -> None:
    assert sum(map(len, SECTIONS.values())) == PAGE.count("\n| for ")
    assert SECTIONS.keys() == WHERE.keys()


@pytest.mark.parametrize("title", WHERE)
def test_the_page_says_how_long_it_is(title: str) -> None:
    for _, name, seconds in SECTIONS[title]:
        place = next(place for place in WHERE[title] if hasattr(place, name))
        assert seconds_of(getattr(place, name)) == float(seconds), name


def test_callers_hear_of_a_lock_within_three_seconds() -> None:
    assert sqlite.BUSY_SECONDS + sqlite.BUSY_AGAIN_SECONDS < 3
    assert postgres.LOCK_SECONDS < 3
    assert mysql.LOCK_SECONDS < 3
