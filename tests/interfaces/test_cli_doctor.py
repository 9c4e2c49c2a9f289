"""What `onbeat doctor` finds of servers: what their settings would lose, and whether they answer."""

import json
import os
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from free_ports import free_port
from onbeat.app.doctor import own_findings
from onbeat.cli.main import root
from stores.mysql import server as mysql
from stores.postgres import server as postgres
from transports.redis import server as redis


@pytest.fixture
def findings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Any]:
    """Runs `onbeat doctor` with these settings; answers with its findings by name."""
    monkeypatch.chdir(tmp_path)

    def run(**settings: Any) -> dict[str, Any]:
        (tmp_path / "onbeat.yaml").write_text(json.dumps(settings))
        result = CliRunner().invoke(root, ["doctor", "--json"])
        rows = {rows["name"]: rows for rows in json.loads(result.stdout)["findings"]}
        assert result.exit_code == (0 if all(each["ok"] for each in rows.values()) else 1)
        return rows

    return run


def test_of_postgresql_it_looks_at_durability_clock_and_commits(
    findings: Callable[..., Any],
) -> None:
    with postgres.database(f"onbeat_doctor_{os.getpid()}") as url:
        result = findings(store=url)
    for name in ("fsync", "full page writes", "synchronous commit", "clock offset", "commit"):
        assert result[name]["value"]


def test_of_mysql_it_looks_at_durability_clock_and_commits(findings: Callable[..., Any]) -> None:
    with mysql.database() as url:
        result = findings(store=url)
    for name in ("innodb_flush_log_at_trx_commit", "sync_binlog", "clock offset", "commit"):
        assert result[name]["value"]


def test_of_a_file_it_looks_at_durability_and_disk(findings: Callable[..., Any]) -> None:
    result = findings(store="sqlite:///onbeat.db")
    for name in ("journal mode", "synchronous", "integrity", "file system", "free space", "fsync"):
        assert result[name]["value"]


def test_a_broker_that_answers_needs_no_persistence(findings: Callable[..., Any]) -> None:
    url = redis.server()
    result = findings(transport=url, connections={"mail": url})
    assert result["transport"]["ok"]
    assert "its own persistence is not needed" in result["transport"]["value"]
    assert result["connection mail"]["ok"]
    assert "persistence" not in result["connection mail"]["value"]


def test_a_broker_that_is_away_is_told(findings: Callable[..., Any]) -> None:
    result = findings(transport=f"redis://127.0.0.1:{free_port()}?timeout=1")
    assert not result["transport"]["ok"]
    assert "127.0.0.1" in result["transport"]["value"]


@pytest.mark.parametrize(
    ("used", "packaged", "said"),
    [
        (
            "2025b",
            "2026a",
            '2025b of this machine, though the package tzdata has 2026a: PYTHONTZPATH=""',
        ),
        ("2026b", "2026a", "2026b"),
        ("2026a", "2026a", "2026a"),
        ("2026a", None, "2026a"),
        ("unknown", "2026a", "unknown"),
    ],
)
def test_zone_data_that_is_older_than_the_package_is_named(
    monkeypatch: pytest.MonkeyPatch, used: str, packaged: str | None, said: str
) -> None:
    monkeypatch.setattr("onbeat.app.doctor.tzdata_version", lambda: used)
    monkeypatch.setattr("onbeat.app.doctor.packaged_tzdata_version", lambda: packaged)
    (found,) = [one for one in own_findings(datetime.now(UTC)) if one.name == "time zone data"]
    assert (found.ok, found.value.removesuffix(" takes that")) == (True, said)
