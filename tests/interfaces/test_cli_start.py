"""A service whose store is not there: what ends its start, and with which code."""

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from free_ports import free_port
from stores.mysql import server as mysql
from stores.postgres import server as postgres

UNREACHABLE, BAD_SETTING = 3, 2


def start(store: Any, cwd: Any, role: str = "maintenance") -> Any:
    """`onbeat up` that is to fail at once."""
    kept = {name: text for name, text in os.environ.items() if not name.startswith("ONBEAT_")}
    failed = subprocess.run(
        [Path(sys.executable).absolute(), "-m", "onbeat", "up", "--roles", role, "--store", store],
        cwd=cwd,
        env=kept,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert failed.stdout == ""
    assert failed.stderr.count("\n") == 1, failed.stderr
    return failed


def test_a_role_that_is_started_while_postgresql_starts_up_exits_as_one_without_its_store(
    tmp_path: Path,
) -> None:
    with postgres.private_server() as server:
        server.stop("fast")
        server.stay_in_recovery()
        failed = start(server.url, tmp_path)
        assert "is not accepting connections" in failed.stderr or "starting up" in failed.stderr
        assert failed.returncode == UNREACHABLE


@pytest.mark.parametrize("scheme", ["postgresql://postgres", "mysql://root"])
def test_a_role_that_is_started_while_its_server_is_away_exits_so_too(
    tmp_path: Path, scheme: str
) -> None:
    failed = start(f"{scheme}@127.0.0.1:{free_port()}/onbeat", tmp_path)
    assert failed.returncode == UNREACHABLE


def test_a_url_that_no_other_try_makes_right_is_a_bad_setting(tmp_path: Path) -> None:
    url = postgres.base_url().rpartition("/")[0]
    places = [
        f"{url}/onbeat_is_not_there",
        f"{mysql.server().partition('?')[0]}/onbeat_is_not_there",
        "postgresql://nobody_of_this_name@" + url.rpartition("@")[2] + "/postgres",
    ]
    for place in places:
        failed = start(place, tmp_path)
        assert failed.returncode == BAD_SETTING, failed.stderr
        assert "store" in failed.stderr
