"""Each command against a store on disk: what it prints, and with which code it ends."""

import asyncio
import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from far_hour import FAR_HOUR
from onbeat import JobFailed, Onbeat, Retry
from onbeat.app.stores import open_store
from onbeat.app.system import SystemClock, SystemRandomness
from onbeat.cli.jobs import in_one_line
from onbeat.cli.main import root
from onbeat.cli.migrate import in_words
from onbeat.model.dead_letter import DeadLetter
from onbeat.model.ids import DeadLetterId, WorkerId
from onbeat.model.outcome import Lost
from onbeat.operations.context import OperationContext
from onbeat.operations.remote_workers import claim
from onbeat.ports.store import ClaimRequest, SchemaChange
from onbeat.stores.sqlite.migrate import migrations
from onbeat.stores.sqlite.store import SqliteStore
from onbeat.testing.store_contract.steps import a_settlement
from onbeat.wire.requests import ClaimJobs
from onbeat.wire.worker_results import ClaimBody

NIGHTLY = f"0 {FAR_HOUR} * * *"

NOBODY = "01900000-0000-7000-8000-000000000000"


@pytest.fixture
def onbeat(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Runs `onbeat …` in an empty folder with a store of its own."""
    monkeypatch.chdir(tmp_path)
    for name in ("ONBEAT_SERVER", "ONBEAT_API_KEY", "ONBEAT_STORE", "ONBEAT_CONFIG"):
        monkeypatch.delenv(name, raising=False)

    def run(*args: Any, code: int = 0, input: Any = None) -> Any:
        result = CliRunner().invoke(root, [str(arg) for arg in args], input=input)
        assert result.exit_code == code, result.output
        return result

    return run


@pytest.fixture
def asked(onbeat: Any) -> Any:
    """The same with `--json`, read."""
    return lambda *args, **more: json.loads(onbeat(*args, "--json", **more).stdout)


@pytest.fixture
def nightly(onbeat: Any) -> Any:
    added = onbeat(
        "schedule", "add", "nightly", "--cron", NIGHTLY, "--tz", "Europe/Berlin",
        "--task", "reports.build", "--args", "[1]", "--kwargs", '{"deep": {"n": 1.0}}',
        "--overlap", "skip", "--catch-up", "none", "--grace", "5m", "--jitter", "10s",
        "--starts-at", "2020-01-01", "--ends-at", "2999-01-01T00:00:00Z", "--dst-gap", "skip",
        "--dst-fold", "last", "--queue", "night", "--priority", "-3", "--timeout", "90s",
        "--expires-after", "2h", "--key", "nightly", "--label", "team=data", "--label", "a=b",
        "--retry-attempts-max", "7", "--retry-backoff", "linear", "--retry-delay", "2s",
        "--retry-delay-max", "1m", "--no-retry-jitter", "--retry-lost-max", "4",
    )  # fmt: skip
    return added.stdout.strip()


def test_what_must_hold_is_added_and_cleared(onbeat: Any, asked: Any) -> None:
    given = (
        "--task", "t", "--condition", "job.queue == 'a'", "--window", "22:00-06:00 UTC",
        "--window", "MON-FRI 9:00-18:00 Europe/Berlin", "--sensitive",
    )  # fmt: skip
    job = asked("job", "show", onbeat("job", "add", *given).stdout.strip())
    assert job["condition"] == {"if": "job.queue == 'a'", "else": "cancel"}
    assert [window["from"] for window in job["window"]] == ["22:00", "09:00"]
    assert (job["sensitive"], job["target"]["args"]) == (True, ["…"])
    id = onbeat("schedule", "add", "s", "--every", "1h", *given).stdout.strip()
    shown = asked("schedule", "show", id)
    assert (shown["condition"], shown["window"]) == (job["condition"], job["window"])
    clear = ("--clear", "condition", "--clear", "window", "--clear", "sensitive")
    onbeat("schedule", "update", id, *clear)
    assert not {"condition", "window", "sensitive"} & asked("schedule", "show", id).keys()


def test_a_condition_may_be_json(onbeat: Any, asked: Any) -> None:
    whole = '{"if": "answer", "ask": {"task": "flag"}}'
    job = onbeat("job", "add", "--task", "t", "--condition", whole).stdout.strip()
    assert asked("job", "show", job)["condition"]["ask"] == {
        "task": "flag",
        "args": [],
        "kwargs": {},
    }
    wrong = onbeat("job", "add", "--task", "t", "--condition", "foo", code=1)
    assert "condition.if: line 1, column 1: undeclared reference to 'foo'" in wrong.stderr
    onbeat("job", "add", "--task", "t", "--condition", "{", code=2)
    onbeat("job", "add", "--task", "t", "--window", "9-5", code=1)


def test_a_schedule_is_added_with_every_option_and_shown(asked: Any, nightly: Any) -> None:
    result = asked("schedule", "show", nightly)
    assert result["name"] == "nightly"
    assert result["cron"] == NIGHTLY
    assert result["timezone"] == "Europe/Berlin"
    task = {"task": "reports.build", "args": [1], "kwargs": {"deep": {"n": 1.0}}}
    assert result["target"] == task
    assert (result["overlap"], result["catch_up"], result["grace"]) == ("skip", "none", "5m")
    assert (result["jitter"], result["dst_gap"], result["dst_fold"]) == ("10s", "skip", "last")
    assert (result["queue"], result["priority"], result["timeout"]) == ("night", -3, "1m30s")
    assert (result["expires_after"], result["key"]) == ("2h", "nightly")
    assert result["labels"] == {"team": "data", "a": "b"}
    assert result["starts_at"] == "2019-12-31T23:00:00Z"
    assert result["retry"] == {
        "attempts_max": 7, "backoff": "linear", "delay": "2s", "delay_max": "1m", "jitter": False,
        "lost_max": 4,
    }  # fmt: skip


def test_a_schedule_with_a_callback_reads_body_and_secret_from_files(
    asked: Any, onbeat: Any, tmp_path: Path
) -> None:
    (tmp_path / "body.json").write_text('{"n": 1}')
    (tmp_path / "secret").write_text("whsec_" + "A" * 32 + "\n")
    added = asked(
        "schedule", "add", "ping", "--every", "15m", "--url", "http://127.0.0.1:9/x",
        "--method", "POST", "--header", "X-One: 1", "--header", "X-Two: a:b",
        "--body", "@body.json", "--secret-file", "secret", "--success", "200",
        "--success", "3xx", "--redirects", "2", "--connect-timeout", "5s",
    )  # fmt: skip
    shown = asked("schedule", "show", added["id"])["target"]["http"]
    assert (shown["method"], shown["body"]) == ("POST", '{"n": 1}')
    assert shown["headers"] == {"X-One": "1", "X-Two": "a:b"}
    assert (shown["success"], shown["redirects"]) == ([200, "3xx"], 2)
    assert shown["connect_timeout"] == "5s"
    assert shown["secret_set"] is True
    assert "whsec" not in onbeat("schedule", "show", added["id"]).stdout


def test_an_instant_without_offset_is_in_the_zone_of_the_rule(asked: Any) -> None:
    added = asked(
        "schedule", "add", "x", "--at", "2999-01-31T09:00", "--tz", "Asia/Tokyo", "--task", "t"
    )
    assert asked("schedule", "show", added["id"])["next_at"] == "2999-01-31T00:00:00Z"


@pytest.mark.parametrize(
    ("args", "told"),
    [
        (("job", "add", "--task", "@http"), "task must not begin with @"),
        (("schedule", "add", "x", "--every", "1h", "--task", "@http"), "must not begin with @"),
        (("job", "add", "--task", "t", "--queue", "a/b"), "queue must not contain /"),
        (("queue", "pause", "a/b"), "name must not contain /"),
    ],
)
def test_names_that_cannot_be_are_refused(onbeat: Any, args: tuple[Any, ...], told: str) -> None:
    assert told in onbeat(*args, code=1).stderr


def test_adding_again_by_key_is_a_conflict_unless_it_replaces(
    asked: Any, onbeat: Any, nightly: Any
) -> None:
    again = ("schedule", "add", "nightly", "--every", "1h", "--task", "t", "--key", "nightly")
    assert "nightly" in onbeat(*again, code=1).stderr
    assert asked(*again, "--replace")["id"] == nightly
    assert asked("schedule", "show", nightly)["every"] == "1h"


def test_a_schedule_reacts_to_events(asked: Any, onbeat: Any) -> None:
    added = asked(
        "schedule", "add", "OTP", "--on", "payment.initiated", "--source", "/shop/*",
        "--if", "event.data.amount > 0", "--by", "event.data.payment", "--delay", "5s",
        "--gather-quiet", "5m", "--gather-for", "30m", "--gather-keep", "last",
        "--gather-most", "10", "--gather-by", "event.subject", "--cancel-on", "payment.*",
        "--cancel-if", "event.type == 'payment.done'", "--cancel-by", "event.id", "--task", "otp",
    )  # fmt: skip
    shown = asked("schedule", "show", added["id"])
    assert shown["on"] == {
        "type": "payment.initiated",
        "source": "/shop/*",
        "if": "event.data.amount > 0",
        "by": "event.data.payment",
    }
    assert shown["gather"] == {
        "quiet": "5m", "for": "30m", "keep": "last", "most": 10, "by": "event.subject",
    }  # fmt: skip
    assert shown["cancel_on"] == {
        "type": "payment.*", "if": "event.type == 'payment.done'", "by": "event.id",
    }  # fmt: skip
    assert (shown["delay"], shown["next_at"]) == ("5s", None)
    assert "payment.initiated" in onbeat("schedule", "show", added["id"]).stdout
    onbeat("schedule", "update", added["id"], "--clear", "gather", "--clear", "cancel-on")
    onbeat("schedule", "update", added["id"], "--gather-until", "0 8 * * *", "--tz", "Asia/Tokyo")
    shown = asked("schedule", "show", added["id"])
    assert shown["gather"] == {"until": {"cron": "0 8 * * *", "timezone": "Asia/Tokyo"}}
    assert "cancel_on" not in shown


def test_options_of_events_need_their_type(onbeat: Any) -> None:
    by = onbeat("schedule", "add", "x", "--by", "event.id", "--task", "t", code=2)
    assert "--on" in by.stderr
    add = ("schedule", "add", "x", "--on", "a", "--cancel-if", "true", "--task", "t")
    assert "--cancel-on" in onbeat(*add, code=2).stderr
    bad = onbeat("schedule", "add", "x", "--on", "a", "--if", "1 +", "--task", "t", code=1)
    assert "on.if: line 1, column 4" in bad.stderr


def test_schedules_are_updated_and_fields_cleared(asked: Any, onbeat: Any, nightly: Any) -> None:
    onbeat("schedule", "update", nightly, "--cron", f"30 {FAR_HOUR} * * *", "--clear", "grace")
    result = asked("schedule", "show", nightly)
    assert result["cron"] == f"30 {FAR_HOUR} * * *"
    assert "grace" not in result
    assert "nothing to change" in onbeat("schedule", "update", nightly, code=2).stderr


def test_schedules_are_listed_in_80_columns(asked: Any, onbeat: Any, nightly: Any) -> None:
    table = onbeat("schedule", "list").stdout
    assert nightly in table
    assert "nightly" in table
    assert all(len(line) <= 80 for line in table.splitlines())
    answer = asked("schedule", "list", "--q", "NIGHT", "--status", "active")
    assert [result["id"] for result in answer["schedules"]] == [nightly]
    assert asked("schedule", "list", "--status", "paused")["schedules"] == []
    assert onbeat("schedule", "list", "--status", "paused").stdout == "no schedules\n"


def test_a_long_list_says_how_to_see_more(onbeat: Any) -> None:
    for name in "abc":
        onbeat("schedule", "add", name, "--every", "1d", "--task", "t")
    assert "2 of 3; see more with --page 2" in onbeat("schedule", "list", "--limit", "2").stdout
    assert "see more" not in onbeat("schedule", "list", "--limit", "2", "--page", "2").stdout


@pytest.mark.parametrize("by", ["id", "key"])
def test_a_schedule_is_paused_resumed_triggered_and_deleted(
    asked: Any, onbeat: Any, nightly: Any, by: str
) -> None:
    which = nightly if by == "id" else "nightly"
    onbeat("schedule", "pause", which)
    assert asked("schedule", "show", which)["status"] == "paused"
    onbeat("schedule", "resume", which)
    assert asked("schedule", "show", which)["status"] == "active"
    job = onbeat("schedule", "trigger", which).stdout.strip()
    assert asked("job", "show", job)["schedule_id"] == nightly
    onbeat("schedule", "update", which, "--name", "weekly")
    assert asked("schedule", "show", which)["name"] == "weekly"
    assert "deleted" in onbeat("schedule", "delete", which).stdout
    assert which in onbeat("schedule", "show", which, code=1).stderr


def test_a_backfill_goes_in_steps_and_repeating_it_adds_nothing(
    asked: Any, onbeat: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("onbeat.cli.schedules.BACKFILL_STEP", 3)
    onbeat("schedule", "add", "x", "--cron", NIGHTLY, "--task", "t", "--key", "nightly")
    span = ("schedule", "backfill", "nightly", "--from", "2026-01-01", "--to", "2026-01-10T12:00Z")
    assert asked(*span, "--limit", "4") == {"jobs": 4}
    assert onbeat(*span).stdout == "6 jobs added\n"
    assert asked(*span) == {"jobs": 0}


@pytest.mark.parametrize("how", [(), ("--dry-run",)])
def test_a_backfill_of_no_span_or_no_schedule_is_refused(onbeat: Any, how: tuple[str, ...]) -> None:
    onbeat("schedule", "add", "x", "--cron", NIGHTLY, "--task", "t", "--key", "nightly")
    backwards = ("--from", "2026-01-10", "--to", "2026-01-01")
    refused = onbeat("schedule", "backfill", "nightly", *backwards, *how, code=1)
    assert "to must not be before from" in refused.stderr
    assert "nobody" in onbeat("schedule", "backfill", "nobody", *backwards, *how, code=1).stderr


def test_a_backfill_is_counted_first(asked: Any, onbeat: Any) -> None:
    onbeat("schedule", "add", "x", "--cron", NIGHTLY, "--task", "t", "--key", "nightly")
    span = ("schedule", "backfill", "nightly", "--from", "2026-01-01", "--to", "2026-01-10T12:00Z")
    assert asked(*span, "--dry-run", "--limit", "4")["more"] is True
    assert onbeat(*span, "--dry-run", "--limit", "4").stdout.startswith("4 or more jobs would be")
    assert asked(*span, "--limit", "4") == {"jobs": 4}
    assert "6 jobs would be added; 4 exist already" in onbeat(*span, "--dry-run").stdout


def test_a_diff_tells_what_an_update_would_change(asked: Any, onbeat: Any, nightly: Any) -> None:
    before = asked("schedule", "show", nightly)
    change = ("nightly", "--cron", f"0 {FAR_HOUR + 1} * * *", "--clear", "grace")
    diff = asked("schedule", "diff", *change)
    assert [one["field"] for one in diff["changes"]] == ["cron", "grace"]
    shown = onbeat("schedule", "diff", *change).stdout
    assert "It cancels 1 jobs and plans 1; the next run moves from" in shown
    assert asked("schedule", "show", nightly) == before
    assert "it changes nothing" in onbeat("schedule", "diff", "nightly", "--queue", "night").stdout
    assert "nothing to change" in onbeat("schedule", "diff", "nightly", code=2).stderr


def test_what_became_of_occurrences_is_listed(asked: Any, onbeat: Any, nightly: Any) -> None:
    span = ("--from", "2026-01-01", "--to", "2026-01-03T12:00Z")
    onbeat("schedule", "backfill", "nightly", *span)
    which = ("schedule", "occurrences", "nightly")
    assert len(asked(*which)["occurrences"]) == 4
    assert len(asked(*which, *span)["occurrences"]) == 3
    page = asked(*which, "--limit", "1")
    assert f"--cursor {page['cursor']}" in onbeat(*which, "--limit", "1").stdout
    assert len(asked(*which, "--cursor", page["cursor"])["occurrences"]) == 3
    assert "planned" in onbeat(*which).stdout
    assert "no occurrences" in onbeat(*which, "--disposition", "failed").stdout
    assert nightly


def test_a_job_gets_another_due_time(asked: Any, onbeat: Any) -> None:
    job = onbeat("job", "add", "--task", "t", "--delay", "1h").stdout.strip()
    moved = asked("job", "reschedule", job, "--run-at", "2030-01-31T09:00:00Z")
    assert moved["run_at"] == "2030-01-31T09:00:00Z"
    assert "in 10 min" in onbeat("job", "reschedule", job, "--delay", "10m").stdout
    assert "--run-at or --delay" in onbeat("job", "reschedule", job, code=2).stderr
    assert NOBODY in onbeat("job", "reschedule", NOBODY, "--delay", "1m", code=1).stderr


def test_settings_and_sessions_are_listed(
    asked: Any, onbeat: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ONBEAT_API__PORT", "9")
    changed = {one["key"]: one for one in asked("settings", "--changed")["settings"]}
    assert changed["api.port"] == {"key": "api.port", "value": "9", "origin": "ONBEAT_API__PORT"}
    assert len(asked("settings")["settings"]) > len(changed)
    assert "ONBEAT_API__PORT" in onbeat("settings").stdout
    assert asked("key", "sessions") == {"sessions": []}
    assert "nobody is logged in" in onbeat("key", "sessions").stdout


def test_the_occurrences_of_a_schedule_are_listed(asked: Any, onbeat: Any, nightly: Any) -> None:
    (event,) = asked("schedule", "events", nightly)["events"]
    assert asked("schedule", "events", "nightly")["events"] == [event]
    assert event["schedule_id"] == nightly
    assert "no occurrences" in onbeat("schedule", "events", nightly, "--history").stdout
    # A long reason is wrapped, and how long a time is depends on the time of day.
    words = onbeat("schedule", "events", nightly).stdout.split()
    assert words.count(event["_id"]) == 1
    assert words[-1] == "ready_queue"
    onbeat("job", "cancel", event["_id"], "--reason", "not today")
    words = onbeat("schedule", "events", nightly, "--history").stdout.split()
    assert words.count(event["_id"]) == 1
    assert words[-3:] == ["cancelled:", "not", "today"]


def test_a_job_is_added_with_every_option_and_shown(asked: Any, onbeat: Any) -> None:
    first = onbeat("job", "add", "--task", "t").stdout.strip()
    added = asked(
        "job", "add", "--task", "mail", "--args", "[7]", "--kwargs", '{"language":"de"}',
        "--delay", "10m", "--queue", "mail", "--priority", "5", "--unique", "welcome:7",
        "--timeout", "30s", "--expires-at", "2999-01-01", "--after", first, "--label", "a=b",
        "--retry-attempts-max", "2",
    )  # fmt: skip
    result = asked("job", "show", added["id"])
    assert result["target"] == {"task": "mail", "args": [7], "kwargs": {"language": "de"}}
    assert (result["queue"], result["priority"], result["unique"]) == ("mail", 5, "welcome:7")
    assert (result["attempts_max"], result["after"], result["labels"]) == (2, [first], {"a": "b"})
    due = datetime.fromisoformat(result["run_at"]) - datetime.now(UTC)
    assert timedelta(minutes=9) < due <= timedelta(minutes=10)
    text = onbeat("job", "show", added["id"]).stdout
    assert "in 10 min" in text
    assert "History" in text
    again = asked("job", "add", "--task", "mail", "--unique", "welcome:7")
    assert (again["id"], again["created"]) == (added["id"], False)


def test_jobs_are_listed_cancelled_retried_and_explained(
    asked: Any, onbeat: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("COLUMNS", raising=False)
    id = onbeat("job", "add", "--url", "http://127.0.0.1:9/x", "--delay", "3h").stdout.strip()
    table = onbeat("job", "list").stdout
    assert id in table
    assert "in 3 h" in table
    assert len(table.splitlines()) == 2, "a heading, and in a pipe a line for each job"
    assert "due" in onbeat("job", "why", id).stdout
    assert asked("job", "why", id)["state"] == "waiting"
    assert onbeat("job", "cancel", id, "--reason", "enough").stdout == "cancelled\n"
    assert asked("job", "show", id)["reason"] == "enough"
    assert [job["id"] for job in asked("job", "list", "--state", "cancelled")["jobs"]] == [id]
    assert asked("job", "list", "--state", "waiting")["jobs"] == []
    assert onbeat("job", "retry", id).stdout == "waiting\n"
    assert onbeat("job", "list", "--task", "nothing").stdout == "no jobs\n"


def test_jobs_come_after_others_by_each_end(asked: Any, onbeat: Any, tmp_path: Path) -> None:
    first = asked("job", "add", "--task", "mail", "--name", "first", "--delay", "3h")["id"]
    for option, edge in (("--after-failure", "failure"), ("--after-end", "end")):
        added = asked("job", "add", "--task", "mail", option, first)
        assert asked("job", "show", added["id"])["after"] == [{"job": first, "on": edge}]
    later = asked("job", "add", "--task", "mail", "--after", first)["id"]
    assert asked("job", "show", first)["name"] == "first"
    onbeat("job", "cancel", first)
    assert asked("job", "show", later)["cause_id"] == first
    onbeat("job", "retry", first, "--no-dependents")
    assert asked("job", "show", later)["state"] == "cancelled"
    onbeat("job", "cancel", first)
    onbeat("job", "retry", first)
    assert asked("job", "show", later)["state"] == "waiting"
    (tmp_path / "flow.jsonl").write_text(
        '{"task": "mail", "name": "b", "after": ["a"]}\n{"task": "mail", "name": "a"}\n'
    )
    assert len(asked("job", "add", "--file", "flow.jsonl")["ids"]) == 2


def test_a_flow_is_drawn_cancelled_and_retried(asked: Any, onbeat: Any, tmp_path: Path) -> None:
    (tmp_path / "flow.jsonl").write_text(
        '{"task": "t", "name": "fetch"}\n'
        '{"task": "t", "name": "left", "after": ["fetch"]}\n'
        '{"task": "t", "name": "join", "after": ["left", {"job": "fetch", "on": "end"}]}\n'
        '{"task": "t", "name": "close", "after": [{"job": "sent", "on": "end"}]}\n'
    )
    ids = asked("job", "add", "--file", "flow.jsonl")["ids"]
    flow = asked("job", "show", ids[0])["flow"]
    fetch, left, join, close = ids
    assert onbeat("flow", "show", flow).stdout.splitlines() == [
        f"{flow} running: 4 waiting",
        f"fetch waiting {fetch}",
        f"└─ left waiting {left}",
        f"   └─ join waiting {join} after end of fetch",
        f"close waiting {close} after end of sent",
    ]
    page = asked("flow", "show", flow, "--limit", "3")
    rest = asked("flow", "show", flow, "--cursor", page["cursor"])
    assert {job["id"] for job in (*page["jobs"], *rest["jobs"])} == {*ids}
    assert len(page["edges"]) + len(rest["edges"]) == 4
    assert flow in onbeat("job", "why", close).stdout
    assert onbeat("flow", "cancel", flow, "--reason", "enough").stdout == "4 jobs cancelled\n"
    assert onbeat("flow", "retry", flow).stdout == "4 jobs wait again\n"
    assert asked("job", "show", close)["state"] == "waiting"
    assert "Flow not found" in onbeat("flow", "show", fetch, code=1).stderr


def test_a_suspect_is_explained_as_one(onbeat: Any, tmp_path: Path) -> None:
    id = onbeat("job", "add", "--task", "mail").stdout.strip()
    asyncio.run(lost_twice(f"sqlite:///{tmp_path}/onbeat.db"))
    answer = onbeat("job", "why", id).stdout
    assert "Its worker died twice while it ran, so it runs apart: alone in its worker." in answer


async def lost_twice(url: str) -> None:
    """The only job, beside one other that may have ended its worker."""
    store = open_store(url)
    await store.open()
    for later in (timedelta(), timedelta(hours=1)):
        now = datetime.now(UTC) + later
        request = ClaimRequest(worker=WorkerId("w"), now=now, limit=1, lanes=frozenset({"mail"}))
        (job,) = (await store.claim(request)).jobs
        assert all(await store.settle([a_settlement(job, Lost("it ended", company=2), now)]))
    await store.close()


def test_a_page_of_jobs_says_how_to_go_on(asked: Any, onbeat: Any) -> None:
    for _ in range(3):
        onbeat("job", "add", "--task", "t")
    first = asked("job", "list", "--limit", "2")
    assert f"--cursor {first['cursor']}" in onbeat("job", "list", "--limit", "2").stdout
    rest = asked("job", "list", "--limit", "2", "--cursor", first["cursor"])
    assert (len(rest["jobs"]), rest["cursor"]) == (1, None)


def test_many_jobs_come_from_a_file_or_a_pipe(
    asked: Any, onbeat: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("onbeat.cli.jobs.CHUNK", 2)
    lines = "".join(f'{{"task": "t", "args": [{n}], "unique": "{n}"}}\n\n' for n in range(5))
    (tmp_path / "jobs.jsonl").write_text(lines)
    assert onbeat("job", "add", "--file", "jobs.jsonl").stdout == "5 jobs added\n"
    assert len(asked("job", "list")["jobs"]) == 5
    again = onbeat("job", "add", "--file", "-", input=lines).stdout
    assert again == "0 jobs added, 5 were there already\n"
    assert len(asked("job", "add", "--file", "jobs.jsonl")["ids"]) == 5


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ('{"task": "t", "priority": "high"}', ["line 4", "priority", "2 jobs had been added"]),
        ("{", ["line 4"]),
        ("[1]", ["line 4", "JSON object"]),
        ('{"tsk": "t"}', ["line 4", "tsk"]),
    ],
)
def test_a_fault_in_a_file_is_told_by_its_line(
    onbeat: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, line: str, said: list[str]
) -> None:
    monkeypatch.setattr("onbeat.cli.jobs.CHUNK", 2)
    (tmp_path / "jobs.jsonl").write_text('{"task": "t"}\n' * 3 + line + "\n")
    message = onbeat("job", "add", "--file", "jobs.jsonl", code=1).stderr
    assert message.count("\n") == 1
    for part in ("jobs.jsonl", *said):
        assert part in message


def test_queues_workers_and_figures_are_shown(asked: Any, onbeat: Any) -> None:
    onbeat("job", "add", "--task", "t", "--queue", "mail")
    assert onbeat("queue", "pause", "mail").stdout == "mail paused\n"
    assert asked("queue", "list")["queues"][0]["paused"] is True
    assert "mail" in onbeat("queue", "list").stdout
    assert onbeat("queue", "resume", "mail").stdout == "mail resumed\n"
    assert asked("worker", "list") == {"workers": [], "remote": []}
    assert onbeat("worker", "list").stdout == "no workers\n"
    assert asked("stats")["jobs"]["waiting"] == 1
    assert "1 waiting" in onbeat("stats").stdout


def test_a_migration_examines_nothing(onbeat: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    async def examine(_store: SqliteStore) -> None:
        pytest.fail("this reads the whole file")

    monkeypatch.setattr(SqliteStore, "doctor", examine)
    assert "up to date" in onbeat("migrate").stdout


def test_a_migration_tells_what_it_did(asked: Any, onbeat: Any) -> None:
    newest = len(migrations())
    made = asked("migrate")
    assert made["store"].startswith("sqlite:")
    assert (made["migrated"], made["from"], made["to"]) == (True, 0, newest)
    again = asked("migrate")
    assert again == made | {"migrated": False, "from": newest}
    assert onbeat("migrate").stdout == (
        f"{made['store']} is up to date: it had schema {newest} already\n"
    )


@pytest.mark.parametrize(
    ("before", "words"), [(0, "schema 9, made anew"), (3, "schema 9, migrated from schema 3")]
)
def test_a_migration_is_told_in_words(before: int, words: str) -> None:
    assert in_words(SchemaChange(url="x:", before=before, after=9)) == words


def test_doctor_and_migrate_look_after_a_store(asked: Any, onbeat: Any) -> None:
    assert "up to date" in onbeat("migrate").stdout
    findings = {result["name"]: result for result in asked("doctor")["findings"]}
    assert {"python", "clock", "time zone data"} <= set(findings)
    assert all(result["ok"] for result in findings.values())
    assert "python" in onbeat("doctor").stdout


def test_doctor_fails_when_something_is_not_right(
    onbeat: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("onbeat.app.doctor.OPEN_FILES_MIN", 10**9)
    text = onbeat("doctor", code=1).stdout
    assert "warn" in text
    assert "raise the limit" in text


def test_the_openapi_document_is_printed(onbeat: Any) -> None:
    assert onbeat("openapi").stdout.startswith("openapi: 3.1")
    assert json.loads(onbeat("openapi", "--format", "json").stdout)["openapi"].startswith("3.1")


@pytest.mark.parametrize(
    ("args", "code", "said"),
    [
        (["job", "show", NOBODY], 1, ["not found", NOBODY]),
        (["job", "show", "zz"], 1, ["ID"]),
        (["schedule", "add", "x", "--every", "1h", "--task", "t", "--overlap", "no"], 2, ["overlap"]),
        (["schedule", "add", "x", "--every", "1h", "--task", "t", "--grace", "long"], 2, ["--grace"]),
        (["schedule", "add", "x", "--every", "1h", "--task", "t", "--tz", "Moon/Base"], 1, ["Moon"]),
        (["schedule", "list", "--status", "activ"], 2, ["--status", "activ", "paused"]),
        (["job", "add", "--task", "t", "--delay", "ten minutes"], 2, ["--delay", "90s"]),
        (["job", "add", "--task", "t", "--unique", "k", "--unique-for", "ever"], 2, ["--unique-for"]),
        (["job", "add", "--task", "t", "--retry-backoff", "no"], 2, ["--retry-backoff", "linear"]),
        (["job", "add", "--url", "ftp://x"], 2, ["--url", "http or https", "ftp"]),
        (["job", "add", "--url", "http://x", "--method", "GRAB"], 2, ["--method", "PATCH"]),
        (["job", "list", "--state", "faild"], 2, ["--state", "faild", "failed"]),
        (["schedule", "add", "x", "--task", "t"], 2, ["--rrule"]),
        (["schedule", "add", "x", "--every", "1h"], 2, ["--url or --task"]),
        (["schedule", "add", "x", "--every", "1h", "--cron", "@daily", "--task", "t"], 2, ["one of"]),
        (["schedule", "add", "x", "--at", "soon", "--task", "t"], 2, ["--at", "soon"]),
        (["schedule", "add", "x", "--every", "1h", "--task", "t", "--replace"], 2, ["--key"]),
        (["schedule", "add", "x", "--every", "1h", "--url", "http://x", "--task", "t"], 2, ["both"]),
        (["job", "add"], 2, ["--task or --url"]),
        (["job", "add", "--task", "t", "--method", "POST"], 2, ["--method", "--task"]),
        (["job", "add", "--url", "http://x", "--args", "[]"], 2, ["--args", "--url"]),
        (["job", "add", "--task", "t", "--args", "{"], 2, ["--args", "JSON"]),
        (["job", "add", "--task", "t", "--kwargs", "[]"], 2, ["--kwargs", "JSON"]),
        (["job", "add", "--task", "t", "--label", "a"], 2, ["--label", "KEY=VALUE"]),
        (["job", "add", "--url", "http://x", "--header", "a"], 2, ["--header"]),
        (["job", "add", "--url", "http://x", "--body", "@nowhere"], 2, ["nowhere", "No such file"]),
        (["job", "add", "--file", "nowhere"], 2, ["nowhere", "No such file"]),
        (["job", "add", "--file", "x", "--task", "t"], 2, ["--file"]),
        (["job", "list", "--limit", "0"], 2, ["--limit"]),
        (["job", "list", "--store", "x.db"], 2, ["store", "sqlite:///PATH"]),
        (["job", "list", "--store", "memory://"], 2, ["--server"]),
        (["job", "list", "--store", "sqlite:///x.db", "--server", "http://x"], 2, ["not both"]),
        (["job", "list", "--server", "x"], 2, ["--server", "http://"]),
        (["job", "list", "--server", "http://127.0.0.1:1"], 3, ["127.0.0.1:1", "refused"]),
        (["job", "list", "--config", "nowhere.yaml"], 2, ["nowhere.yaml"]),
        (["job", "lst"], 2, ["lst", "list"]),
        (["jbo"], 2, ["jbo", "job"]),
        (["job", "list", "--jsn"], 2, ["--jsn", "--json"]),
        (["up", "--port", "eighty"], 2, ["api.port", "eighty", "--port"]),
        (["up", "--host", "0.0.0.0"], 2, ["api.host", "ONBEAT_API__KEYS"]),
        (["up", "nowhere.py"], 2, ["nowhere.py", "does not exist"]),
        (["up", "a.py", "--app", "b.py"], 2, ["once"]),
        (["up", "--transport", "pigeon://x"], 2, ["transport", "pigeon"]),
    ],
)  # fmt: skip
def test_what_is_wrong_is_one_line_and_a_code(
    onbeat: Any, args: list[str], code: int, said: list[str]
) -> None:
    result = onbeat(*args, code=code)
    assert result.stdout == ""
    assert result.stderr.startswith("onbeat: ")
    assert result.stderr.count("\n") == 1
    for part in said:
        assert part in result.stderr


@pytest.mark.parametrize("rule", [("--cron", "0 3 * * MOM"), ("--rrule", "FREQ=DAY")])
def test_a_rule_that_nobody_can_read_is_bad_usage(onbeat: Any, rule: tuple[str, str]) -> None:
    shown = onbeat("schedule", "add", "x", *rule, "--task", "t", code=2).stderr
    place = shown.splitlines()[2].index("^")
    assert shown.splitlines()[1][place:] in {"MOM", "DAY"}
    assert shown == onbeat("next", rule[1], code=2).stderr


def test_a_server_in_the_environment_is_asked_unless_a_store_is_named(
    onbeat: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ONBEAT_SERVER", "http://127.0.0.1:1")
    assert "127.0.0.1:1" in onbeat("job", "list", code=3).stderr
    assert onbeat("job", "list", "--store", "sqlite:///x.db").stdout == "no jobs\n"


def test_the_store_comes_from_the_settings(onbeat: Any, tmp_path: Path) -> None:
    (tmp_path / "onbeat.yaml").write_text("store: sqlite:///other.db\napi: {host: 0.0.0.0}\n")
    onbeat("job", "list")
    assert (tmp_path / "other.db").exists()


def test_an_unexpected_error_is_one_line_and_debug_shows_more(
    onbeat: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: Any) -> None:
        raise RuntimeError("no\nway")

    monkeypatch.setattr("onbeat.cli.client.ConnectionOptions.call", broken)
    message = onbeat("job", "list", code=1).stderr
    assert "RuntimeError: no way" in message
    assert "--debug" in message
    with pytest.raises(RuntimeError):
        CliRunner().invoke(root, ["--debug", "job", "list"], catch_exceptions=False)


def test_names_cannot_drive_the_terminal(onbeat: Any) -> None:
    onbeat("job", "add", "--task", "[red]x[/red]", "--label", "a=b")
    assert "[red]x" in "".join(onbeat("job", "list").stdout.split())


def test_a_name_where_an_id_belongs_is_shown_with_where_the_ids_stand(onbeat: Any) -> None:
    fields = onbeat("job", "show", "nightly", code=1).stderr
    assert fields == "onbeat: Invalid job ID format: nightly; `onbeat job list` shows the ids\n"


@pytest.mark.parametrize("which", ["weekly", NOBODY])
def test_an_error_names_the_schedule_that_is_not_there(onbeat: Any, which: str) -> None:
    for command in ("show", "pause", "resume", "trigger", "delete"):
        assert onbeat("schedule", command, which, code=1).stderr == (
            f"onbeat: no schedule has the id or key '{which}';"
            " `onbeat schedule list` shows what there is\n"
        )


def test_a_flow_is_found_by_its_jobs(onbeat: Any) -> None:
    error = onbeat("flow", "show", "nightly", code=1).stderr
    assert error.endswith("nightly; `onbeat job show` names the flow of a job\n")


def test_limits_of_a_queue_are_set_and_taken_away(asked: Any, onbeat: Any) -> None:
    words = onbeat("queue", "limit", "mail", "--concurrency", "10", "--rate", "100/1s").stdout
    assert words == "mail: 10 at once, 100/s\n"
    words = onbeat("queue", "limit", "mail", "--no-rate", "--group-concurrency", 1).stdout
    assert words == "mail: 10 at once; a group 1 at once\n"
    limits = {"concurrency": 10, "group_concurrency": 1}
    assert asked("queue", "limit", "mail")["limits"] == limits
    assert asked("queue", "list")["queues"][0]["limits"] == limits
    assert "10 at once" in onbeat("queue", "list").stdout
    gone = onbeat("queue", "limit", "mail", "--no-concurrency", "--no-group-concurrency").stdout
    assert gone == "mail: no limits\n"


def test_turns_of_groups_are_set_and_taken_away(onbeat: Any) -> None:
    words = onbeat("queue", "limit", "mail", "--fair", "--group-concurrency", 1).stdout
    assert words == "mail: a group 1 at once; by turns\n"
    assert onbeat("queue", "limit", "mail").stdout == words
    words = onbeat("queue", "limit", "mail", "--no-fair").stdout
    assert words == "mail: a group 1 at once\n"


def test_a_queue_is_watched_for_lateness_and_no_longer(asked: Any, onbeat: Any) -> None:
    words = onbeat("queue", "limit", "mail", "--rate", "1/s", "--late-after", "300s").stdout
    assert words == "mail: 1/s; late after 5m\n"
    assert asked("queue", "limit", "mail")["limits"] == {"rate": "1/s", "late_after": "5m"}
    words = onbeat("queue", "limit", "mail", "--no-late-after", "--no-rate").stdout
    assert words == "mail: no limits\n"
    refused = onbeat("queue", "limit", "mail", "--late-after", "32d", code=1).stderr
    assert "late_after must be from 1s to 31d" in refused


def test_a_limit_is_set_or_taken_away_not_both(onbeat: Any) -> None:
    result = onbeat("queue", "limit", "mail", "--rate", "1/s", "--no-rate", code=2)
    assert "--rate or --no-rate" in result.stderr
    assert "rate must be" in onbeat("queue", "limit", "mail", "--rate", "fast", code=1).stderr


def test_a_job_is_added_to_a_group(asked: Any, onbeat: Any) -> None:
    added = asked("job", "add", "--task", "t", "--group", "tenant:7")
    assert asked("job", "show", added["id"])["group"] == "tenant:7"
    assert "tenant:7" in onbeat("job", "show", added["id"]).stdout


async def claimed(url: str) -> None:
    store = open_store(url)
    await store.open()
    try:
        request = ClaimJobs(ClaimBody(worker="exporter-1", tasks=("t",), limit=20))
        context = OperationContext(store=store, clock=SystemClock(), randomness=SystemRandomness())
        await claim(context, request)
    finally:
        await store.close()


def test_workers_show_what_they_run(asked: Any, onbeat: Any, tmp_path: Path) -> None:
    ids = [asked("job", "add", "--task", "t")["id"] for _ in range(12)]
    asyncio.run(claimed(f"sqlite:///{tmp_path}/onbeat.db"))
    table = onbeat("worker", "list").stdout
    assert "exporter-1" in table
    assert sum(id in table for id in ids) == 10
    assert "and 2 more" in table
    (worker,) = asked("worker", "list")["remote"]
    assert {job["id"] for job in worker["jobs"]} == set(ids)


# Dead letters


async def buried(url: str, *letters: Any) -> Any:
    store = open_store(url)
    await store.open()
    try:
        ids = SystemRandomness().ids(len(letters))
        await store.add_dead_letters(
            [
                DeadLetter(
                    id=DeadLetterId(id), at=SystemClock().now(), headers={"a": "b"}, **letter
                )
                for id, letter in zip(ids, letters, strict=True)
            ]
        )
        return ids
    finally:
        await store.close()


def submission(task: str = "export") -> Any:
    body = {"jsonrpc": "2.0", "method": f"submit:{task}", "params": {"objectID": 23}}
    return {"source": "onbeat.submit", "reason": "unknown", "body": json.dumps(body).encode()}


@pytest.fixture
def bury(tmp_path: Path) -> Any:
    return lambda *letters: asyncio.run(buried(f"sqlite:///{tmp_path}/onbeat.db", *letters))


def test_the_list_of_dead_letters_fits_into_80_columns(onbeat: Any, bury: Any) -> None:
    reason = "params.objectID: expected int, got str; the message was enclosed in double quotes"
    first, second = bury({**submission(), "reason": reason}, submission())
    lines = onbeat("dead-letter", "list").stdout.splitlines()
    assert [line.split()[0] for line in lines] == [
        "ID",
        second,
        "unknown",
        first,
        "params.objectID:",
    ]
    assert lines[1].endswith("onbeat.submit")
    assert lines[4] == f"  {reason}"
    assert max(map(len, (lines[1], lines[3]))) <= 80


def test_dead_letters_are_listed_and_shown(asked: Any, onbeat: Any, bury: Any) -> None:
    assert onbeat("dead-letter", "list").stdout == "no dead letters\n"
    first, second = bury(submission(), {**submission(), "source": "rpc", "body": b"\xff"})
    table = onbeat("dead-letter", "list").stdout
    assert first in table
    assert "unknown" in table
    assert [each["id"] for each in asked("dead-letter", "list", "--source", "rpc")["letters"]] == [
        second
    ]
    assert "see more with --cursor" in onbeat("dead-letter", "list", "--limit", "1").stdout
    assert '"objectID": 23' in onbeat("dead-letter", "show", first).stdout
    assert "Body in base64\n/w==" in onbeat("dead-letter", "show", second).stdout
    assert asked("dead-letter", "show", first)["headers"] == {"a": "b"}


def test_a_dead_letter_is_deleted(onbeat: Any, bury: Any) -> None:
    (id,) = bury(submission())
    assert onbeat("dead-letter", "delete", id).stdout == "deleted\n"
    assert f"Dead letter not found: {id}" in onbeat("dead-letter", "delete", id, code=1).stderr


def test_what_does_not_go_through_is_kept_and_told(asked: Any, onbeat: Any, bury: Any) -> None:
    (id,) = bury(submission())
    answer = onbeat("dead-letter", "replay", id, code=1).stdout
    assert "knows the task export" in answer
    (letter,) = asked("dead-letter", "list")["letters"]
    assert f"kept as {letter['id']}" in answer
    assert asked("dead-letter", "replay", letter["id"], code=1)["replayed"] is False


def test_all_dead_letters_are_replayed(asked: Any, onbeat: Any, bury: Any, tmp_path: Path) -> None:
    (job,) = [asked("job", "add", "--task", "export")["id"]]
    result = {"jsonrpc": "2.0", "id": job, "result": 1}
    (good,) = bury({"source": "onbeat.results", "reason": "x", "body": json.dumps(result).encode()})
    asyncio.run(claimed(f"sqlite:///{tmp_path}/onbeat.db"))
    bury(submission(), {**submission(), "source": "onbeat.work.default"})
    answer = asked("dead-letter", "replay", "--all", code=1)["letters"]
    assert [each["replayed"] for each in answer] == [False, False, False]
    assert answer[0]["id"] != good
    response = onbeat("dead-letter", "replay", "--all", "--source", "onbeat.submit", code=1).stdout
    assert response.startswith("0 replayed, 1 kept\n")


def test_a_task_that_the_settings_declare_is_known(
    asked: Any, onbeat: Any, bury: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    (id,) = bury(submission())
    monkeypatch.setenv("ONBEAT_REMOTE__TASKS", "export")
    answer = asked("dead-letter", "replay", id)
    assert asked("job", "show", answer["job_id"])["target"]["kwargs"] == {"objectID": 23}
    assert onbeat("dead-letter", "list").stdout == "no dead letters\n"


@pytest.mark.parametrize("said", [(), ("--all", NOBODY), ("--source", "rpc", NOBODY)], ids=str)
def test_a_replay_is_of_one_or_of_all(onbeat: Any, said: tuple[Any, ...]) -> None:
    assert "--all" in onbeat("dead-letter", "replay", *said, code=2).stderr


def test_a_key_is_made_listed_and_revoked_and_each_change_audited(
    asked: Any, onbeat: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = onbeat(
        "key", "new", "exporter", "--scope", "work", "--queue", "mail", "--expires", "90d"
    )
    assert made.stdout.startswith("onb_")
    (key,) = asked("key", "list")["keys"]
    assert (key["name"], key["scopes"], key["queues"]) == ("exporter", ["work"], ["mail"])
    listed = onbeat("key", "list").stdout
    assert "exporter" in listed
    assert made.stdout.strip() not in listed
    assert "'exporter'" in onbeat("key", "new", "exporter", "--scope", "read", code=1).stderr
    assert "revoked" in onbeat("key", "revoke", "exporter").stdout
    assert "Key not found: exporter" in onbeat("key", "revoke", "exporter", code=1).stderr
    onbeat("key", "new", "x", "--scope", "write", code=2)
    outcomes = [one["outcome"] for one in asked("audit", "--object", "key/exporter")["records"]]
    assert outcomes == ["not_found", "done", "conflict", "done"]
    page = onbeat("audit", "--limit", "1", "--actor", "local").stdout
    assert "key.revoke" in page
    assert "see more with --cursor" in page
    monkeypatch.setenv("ONBEAT_API__KEYS", "ops:admin=a-key-of-the-settings")
    refused = onbeat("key", "new", "ops", "--scope", "read", code=1).stderr
    assert "a key of the settings (api.keys) is named 'ops'" in refused


# Events


def test_an_event_is_sent_listed_shown_and_replayed(onbeat: Any, asked: Any) -> None:
    sent = asked(
        "event", "send", "order.paid", "--data", '{"order": 7.0}', "--source", "/shop",
        "--id", "7", "--subject", "order", "--time", "2026-01-01T00:00:00Z",
    )  # fmt: skip
    assert sent == {"id": "7", "created": True}
    again = onbeat("event", "send", "order.paid", "--source", "/shop", "--id", "7")
    assert again.stdout == "7 was there already\n"
    (event,) = asked("event", "list", "--type", "order.*", "--source", "/shop")["events"]
    assert asked("event", "show", "7") == event
    assert (event["data"], event["time"]) == ({"order": 7.0}, "2026-01-01T00:00:00Z")
    shown = onbeat("event", "show", "7", "--source", "/shop").stdout
    assert "not yet" in shown
    assert '{"order":7.0}' in shown
    assert "  order.paid from /shop" in onbeat("event", "list").stdout.splitlines()
    assert "routed again" in onbeat("event", "replay", "7").stdout
    assert "message" in asked("event", "replay", "7")


def test_events_are_listed_in_pages(onbeat: Any, asked: Any) -> None:
    assert onbeat("event", "list").stdout == "no events\n"
    for id in "12":
        assert onbeat("event", "send", "t", "--id", id).stdout == f"{id}\n"
    page = asked("event", "list", "--limit", "1")
    assert [one["id"] for one in page["events"]] == ["2"]
    assert f"--cursor {page['cursor']}" in onbeat("event", "list", "--limit", "1").stdout
    rest = asked("event", "list", "--limit", "1", "--cursor", page["cursor"])
    assert [one["id"] for one in rest["events"]] == ["1"]


def test_data_of_an_event_may_come_from_a_file(onbeat: Any, asked: Any) -> None:
    Path("order.json").write_text('{"order": 7}')
    onbeat("event", "send", "t", "--id", "1", "--data", "@order.json")
    onbeat("event", "send", "t", "--id", "2", "--data", "@-", input='"text"')
    assert asked("event", "show", "1")["data"] == {"order": 7}
    assert asked("event", "show", "2")["data"] == "text"
    assert "--data is not JSON" in onbeat("event", "send", "t", "--data", "{", code=2).output


def test_wrong_events_end_with_1(onbeat: Any) -> None:
    assert "Event not found: nope" in onbeat("event", "show", "nope", code=1).output
    onbeat("event", "send", "t", "--id", "1", "--source", "/a")
    onbeat("event", "send", "t", "--id", "1", "--source", "/b")
    assert "/a, /b; name the source" in onbeat("event", "show", "1", code=1).output
    assert "type must not begin" in onbeat("event", "send", "onbeat.x", code=1).output


def test_a_traceback_is_shown_in_its_lines(onbeat: Any) -> None:
    with Onbeat("sqlite:///onbeat.db") as beat:

        @beat.task("bad", retry=Retry(1))
        def bad() -> float:
            return 1 / 0

        with beat.started(), pytest.raises(JobFailed):
            bad.send().result(timeout=60)
        (job,) = beat.jobs.list()
    lines = [line.strip() for line in onbeat("job", "show", job.id).stdout.splitlines()]
    assert "return 1 / 0" in lines
    assert "ZeroDivisionError: division by zero" in lines


def test_a_long_target_is_whole(onbeat: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    task = "reports.of.every.workspace.and.of.every.month.since.the.beginning.of.the.year"
    id = onbeat("job", "add", "--task", task).stdout.strip()
    monkeypatch.delenv("COLUMNS", raising=False)
    head, row = onbeat("job", "list").stdout.splitlines()
    assert (head.split()[-1], row.split()[0], row.split()[-1]) == ("TARGET", id, task)
    monkeypatch.setenv("COLUMNS", "80")
    head, row, below = onbeat("job", "list").stdout.splitlines()
    assert (head.split(), row.split()[0], below) == (["ID", "STATE", "DUE"], id, f"  {task}")


def test_a_long_name_of_a_schedule_is_whole(onbeat: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    name = "every statement of every workspace"
    id = onbeat("schedule", "add", name, "--every", "1h", "--task", "t").stdout.strip()
    monkeypatch.setenv("COLUMNS", "80")
    head, row, below = onbeat("schedule", "list").stdout.splitlines()
    assert (head.split(), row.split()[0], below) == (["ID", "STATUS", "NEXT"], id, f"  {name}")


def test_a_task_that_no_worker_knows_is_told_on_standard_error(onbeat: Any, tmp_path: Path) -> None:
    beat = Onbeat("sqlite:///onbeat.db")
    beat.task("mail")(lambda: None)
    assert onbeat("job", "add", "--task", "mial").stderr == "", "no worker is alive"
    (tmp_path / "jobs.jsonl").write_text('{"task": "mail"}\n{"task": "mial"}\n')
    told = "onbeat: no live worker knows the task mial; the jobs wait until one does\n"
    with beat.started():
        assert onbeat("job", "add", "--task", "mail").stderr == ""
        assert onbeat("job", "add", "--task", "mial").stderr == told
        assert onbeat("job", "add", "--file", "jobs.jsonl").stderr == told
        waited = onbeat("job", "add", "--task", "mial", "--wait", "0s", code=4).stderr
        assert waited.startswith(told)
        assert onbeat("schedule", "add", "x", "--every", "1d", "--task", "mial").stderr == told
        (tmp_path / "file.yaml").write_text("schedules: {y: {every: 1d, target: {task: mial}}}\n")
        assert onbeat("schedule", "apply", "file.yaml").stderr == told


def test_a_traceback_in_a_history_is_its_last_line() -> None:
    traceback = 'failed: File "shop.py", line 9, in charge\n    raise ValueError\nValueError: no'
    assert in_one_line(traceback) == "failed: ValueError: no"
    assert in_one_line("cancelled: by hand") == "cancelled: by hand"
    assert in_one_line("-") == "-"
