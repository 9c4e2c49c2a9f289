"""`onbeat failure` and groups of dead letters, against a store on disk."""

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from onbeat.app.stores import open_store
from onbeat.cli.failures import counted
from onbeat.cli.main import root
from onbeat.model.outcome import Failed
from onbeat.rules.faults import change_of
from onbeat.testing.build import NOW, a_job
from onbeat.testing.store_contract.dead_letters import a_dead_letter
from onbeat.testing.store_contract.steps import run_and_end


@pytest.fixture
def onbeat(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Runs `onbeat …` in an empty folder with a store of its own."""
    monkeypatch.chdir(tmp_path)
    for name in ("ONBEAT_SERVER", "ONBEAT_API_KEY", "ONBEAT_STORE", "ONBEAT_CONFIG"):
        monkeypatch.delenv(name, raising=False)

    def run(*args: Any, code: int = 0) -> Any:
        result = CliRunner().invoke(root, [str(arg) for arg in args])
        assert result.exit_code == code, result.output
        return result

    return run


@pytest.fixture
def asked(onbeat: Any) -> Any:
    """The same with `--json`, read."""
    return lambda *args: json.loads(onbeat(*args, "--json").stdout)


@pytest.fixture
def fault(tmp_path: Path) -> str:
    """Two jobs that failed alike, and three dead letters of two groups."""
    return asyncio.run(filled(f"sqlite:///{tmp_path}/onbeat.db"))


async def filled(url: str) -> str:
    store = open_store(url)
    await store.open()
    try:
        for order in (1, 2):
            failed = Failed(f"order {order} failed", retryable=False)
            job = await run_and_end(store, a_job(), failed)
            change = change_of(job.target, job.queue, job.id, job.error or "", NOW)
            await store.note_faults([change])
        reasons = ("not JSON at 1", "not JSON at 2", "no task")
        await store.add_dead_letters([a_dead_letter(reason=reason) for reason in reasons])
        return str(job.fault)
    finally:
        await store.close()


def test_without_failures_a_list_says_so(onbeat: Any) -> None:
    assert onbeat("failure", "list").stdout == "nothing has failed\n"
    assert onbeat("dead-letter", "groups").stdout == "no dead letters\n"


def test_failures_are_listed_and_shown(onbeat: Any, asked: Any, fault: str) -> None:
    table = onbeat("failure", "list").stdout
    assert fault in table
    assert "order #" in " ".join(table.split())
    (one,) = asked("failure", "list", "--q", "ORDER", "--order", "count")["failures"]
    assert (one["fault"], one["attempts"], one["failed"]) == (fault, 2, 2)
    shown = onbeat("failure", "show", fault).stdout
    assert "failed for good" in shown
    assert shown.count("failed ") >= 2
    assert len(asked("failure", "show", fault)["jobs"]) == 2
    assert "Failure not found" in onbeat("failure", "show", "12", code=1).stderr
    assert len(asked("job", "list", "--fault", fault)["jobs"]) == 2


def test_a_page_leads_to_the_next(onbeat: Any, fault: str, tmp_path: Path) -> None:
    asyncio.run(another(f"sqlite:///{tmp_path}/onbeat.db"))
    assert "2 in all; see more with --cursor 1" in onbeat("failure", "list", "--limit", 1).stdout


async def another(url: str) -> None:
    store = open_store(url)
    await store.open()
    try:
        await store.note_faults([change_of(a_job("mail").target, "q", a_job().id, "no", NOW)])
    finally:
        await store.close()


def test_a_fault_is_replayed(onbeat: Any, asked: Any, fault: str) -> None:
    answer = onbeat("failure", "replay", fault, "--dry-run").stdout
    assert answer == "2 would be retried\n"
    first = onbeat("failure", "replay", fault, "--limit", 1).stdout
    assert first.startswith("1 retried\nthere are more; go on with --cursor ")
    cursor = first.split()[-1]
    assert asked("failure", "replay", fault, "--cursor", cursor)["done"] == 1
    assert onbeat("failure", "replay", fault).stdout == "0 retried\n"


def test_a_fault_is_silenced(onbeat: Any, asked: Any, fault: str) -> None:
    answer = onbeat("failure", "silence", fault, "--for", "2h", "--note", "known").stdout
    assert answer.startswith("silenced until ")
    assert "known" in onbeat("failure", "show", fault).stdout
    until = asked("failure", "silence", fault, "--until", "2999-01-01T00:00:00Z")
    assert until["silenced_until"] == "2999-01-01T00:00:00Z"
    assert onbeat("failure", "silence", fault, "--off").stdout == "no longer silenced\n"
    for options in ((), ("--off", "--for", "1h")):
        assert "one of" in onbeat("failure", "silence", fault, *options, code=2).stderr


def test_a_fault_has_a_note(onbeat: Any, asked: Any, fault: str) -> None:
    assert onbeat("failure", "note", fault, "ticket 4711").stdout == "noted\n"
    assert "ticket 4711 (" in onbeat("failure", "show", fault).stdout
    assert asked("failure", "show", fault)["operator_note"]["text"] == "ticket 4711"
    assert onbeat("failure", "note", fault, "").stdout == "the note is deleted\n"
    assert "at most 500" in onbeat("failure", "note", fault, "x" * 501, code=1).stderr


@pytest.mark.parametrize(("count", "words"), [(0, "0"), (1_000, "1,000"), (1_001, "> 1,000")])
def test_a_count_that_stopped_says_so(count: int, words: str) -> None:
    assert counted(count, 1_000) == words


@pytest.mark.usefixtures("fault")
def test_dead_letters_are_replayed_and_deleted_by_group(onbeat: Any, asked: Any) -> None:
    groups = {one["reason"]: one["group"] for one in asked("dead-letter", "groups")["groups"]}
    assert set(groups) == {"not JSON at #", "no task"}
    assert "not JSON at #" in onbeat("dead-letter", "groups").stdout
    group = groups["not JSON at #"]
    kept = onbeat("dead-letter", "replay-group", group).stdout
    assert kept == "0 replayed, 2 skipped\n"
    assert asked("dead-letter", "replay-group", group, "--dry-run")["done"] == 2
    assert onbeat("dead-letter", "delete-group", group, "--dry-run").stdout == (
        "2 would be deleted\n"
    )
    assert asked("dead-letter", "delete-group", group)["done"] == 2
    assert "Group not found" in onbeat("dead-letter", "delete-group", group, code=1).stderr
