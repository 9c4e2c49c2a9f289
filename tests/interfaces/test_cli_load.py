"""`onbeat load` against a service that really runs: every job is counted once."""

import asyncio
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from conditions import eventually_here
from interfaces.up import Up, up
from onbeat.app.load.run import Load
from onbeat.cli.backend import open_backend
from onbeat.cli.load import exit_code_of
from onbeat.cli.main import root
from onbeat.model.load import LoadPlan, Pacing
from onbeat.settings import Settings
from onbeat.wire.targets import TargetBody

FAST = ("--rate", "60", "--for", "500ms", "--pacing", "fixed")


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Up]:
    with up(tmp_path_factory.mktemp("load"), "onbeat.testing.load") as running:
        yield running


def url_of(service: Up) -> str:
    host, port = service.address
    return f"http://{host}:{port}"


def run(service: Up, *args: str) -> Any:
    return CliRunner().invoke(root, ["load", "--server", url_of(service), *args])


def jobs_of(service: Up, run: str) -> list[Any]:
    status, answer = service.ask(f"/api/jobs?label=load:{run}&limit=1000")
    assert status == 200
    found: list[Any] = answer["jobs"]
    return found


def test_every_job_is_sent_and_ends_once(service: Up) -> None:
    done = run(service, *FAST, "--queue", "exact", "--payload", "100", "--json")
    assert done.exit_code == 0, done.output
    report = json.loads(done.stdout)
    jobs = jobs_of(service, report["run"])
    assert len(jobs) == 30
    assert {(job["state"], job["queue"]) for job in jobs} == {("succeeded", "exact")}
    assert {len(job["target"]["kwargs"]["payload"]) for job in jobs} == {100}
    assert (report["offered"], report["sent"], report["found"]) == (30, 30, 30)
    assert (report["ended"], report["unended"], report["errors"]) == ({"succeeded": 30}, 0, {})
    for name in ("send", "sender_lag", "start", "end_to_end"):
        measured = report[name]
        assert measured["count"] == 30
        assert 0 <= measured["p50"] <= measured["p95"] <= measured["p99"] <= measured["max"]
    # What a job took in all is not less than what its start took.
    assert report["end_to_end"]["max"] + 2 * report["clock_error"] >= report["start"]["max"]
    assert report["seconds"] >= 0.5


def test_the_figures_are_a_table_for_people(service: Up) -> None:
    done = run(service, *FAST, "--queue", "table")
    assert done.exit_code == 0, done.output
    assert "30 succeeded" in done.stdout
    lines = done.stdout.splitlines()
    for name in ("offered", "sent", "ended", "send", "start", "end to end", "sender behind"):
        assert any(line.startswith(f"{name}  ") for line in lines), done.stdout


def test_two_loads_do_not_count_each_other(service: Up) -> None:
    first, second = (
        json.loads(run(service, *FAST, "--queue", "twice", "--json").stdout) for _ in range(2)
    )
    assert first["run"] != second["run"]
    assert (first["found"], second["found"]) == (30, 30)


def test_jobs_that_nobody_runs_are_sent_and_cancelled(service: Up) -> None:
    task = ("--task", "nobody.knows", "--queue", "idle", "--rate", "20", "--for", "250ms")
    refused = run(service, *task)
    assert refused.exit_code == 1
    assert "no live worker runs the task nobody.knows on queue idle" in refused.stderr
    done = run(service, *task, "--pacing", "fixed", "--wait", "0s", "--json", "--cleanup")
    assert done.exit_code == 0, done.output
    report = json.loads(done.stdout)
    assert (report["sent"], report["is_read"], report["ended"]) == (5, False, {})

    def all_cancelled() -> bool:
        return {job["state"] for job in jobs_of(service, report["run"])} == {"cancelled"}

    eventually_here(all_cancelled, "what waited was cancelled")


def test_a_queue_with_other_jobs_is_refused(service: Up) -> None:
    body = {"task": "nobody.knows", "queue": "taken"}
    assert service.ask("/api/jobs", body)[0] == 201
    done = run(service, *FAST, "--queue", "taken")
    assert done.exit_code == 1
    assert "queue taken has 1 waiting and 0 running jobs" in done.stderr


def test_refused_requests_are_counted_by_kind(service: Up) -> None:
    done = run(
        service,
        *FAST,
        "--queue",
        "wrong",
        "--json",
        "--kwargs",
        '{"x": 1}',
        "--task",
        "onbeat.load",
    )
    assert done.exit_code == 1
    report = json.loads(done.stdout)
    assert (report["sent"], report["ended"]) == (30, {"failed": 30})
    ((kind, count),) = report["failures"].items()
    assert count == 30
    assert kind.startswith("failed: ")


def test_a_store_is_loaded_without_a_service(service: Up) -> None:
    store = f"sqlite:///{service.log.parent}/onbeat.db"
    args = ["load", "--store", store, *FAST, "--queue", "store", "--json"]
    done = CliRunner().invoke(root, args)
    assert done.exit_code == 0, done.output
    assert json.loads(done.stdout)["ended"] == {"succeeded": 30}


@pytest.mark.parametrize(
    ("args", "words"),
    [
        (("--rate", "0"), "rate must be above 0 and at most 10,000 jobs a second"),
        (("--rate", "nan"), "rate must be above 0"),
        (("--for", "25h"), "for must be a span"),
        (("--for", "soon"), "--for must be a span"),
        (("--rate", "10000", "--for", "2h"), "at most 1,000,000 jobs in all"),
        (("--payload", "131073"), "--payload"),
        (("--payload", "1", "--kwargs", "{}"), "--kwargs does not go with --payload"),
        (("--args", "[7"), "--args is not JSON"),
    ],
)
def test_a_load_that_cannot_be_is_bad_usage(args: tuple[str, ...], words: str) -> None:
    done = CliRunner().invoke(root, ["load", *args])
    assert done.exit_code == 2, done.output
    assert words in " ".join(done.stderr.split())


def test_no_service_is_unreachable() -> None:
    done = CliRunner().invoke(root, ["load", "--server", "http://127.0.0.1:1"])
    assert done.exit_code == 3
    assert "did not answer" in done.stderr


def test_an_interrupt_prints_what_there_is(service: Up) -> None:
    kept = {name: text for name, text in os.environ.items() if not name.startswith("ONBEAT_")}
    args = ("--rate", "20", "--for", "10m", "--queue", "cut", "--json")
    process = subprocess.Popen(
        [sys.executable, "-m", "onbeat", "load", "--server", url_of(service), *args],
        env=kept,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )

    def has_jobs() -> bool:
        return bool(service.ask("/api/jobs?queue=cut")[1]["jobs"])

    eventually_here(has_jobs, "some jobs were sent")
    process.send_signal(signal.SIGINT)
    out, error = process.communicate(timeout=60)
    assert process.returncode == 130, error
    report = json.loads(out)
    assert report["is_interrupted"]
    assert report["offered"] == report["sent"] == report["found"] > 0


PLAN = LoadPlan(
    run="0199-dies",
    task="onbeat.load",
    queue="load",
    rate=10.0,
    span=0.5,
    pacing=Pacing.FIXED,
    connections=1,
    payload=0,
    patience=0.5,
)


async def test_a_service_that_dies_gives_errors_by_kind(tmp_path: Path) -> None:
    with up(tmp_path, "onbeat.testing.load") as mortal:

        def times() -> Iterator[float]:
            yield from (0.0, 0.1)
            mortal.process.kill()
            mortal.process.wait()
            yield from (0.2, 0.3, 0.4)

        async with open_backend(url_of(mortal), None, Settings) as backend:
            load = Load(backend, PLAN, TargetBody(task=PLAN.task))
            load.sender.times = times()
            report = await load.run(asyncio.Event(), lambda _: None)
    assert (report.offered, report.sent, report.found) == (5, 2, 0)
    # Refused, or cut off where the kept connection is noticed late.
    assert sum(report.errors.values()) == 3
    assert all(kind.startswith("unavailable: ") for kind in report.errors)
    assert any("did not answer" in kind for kind in report.errors)
    assert not report.is_read
    assert exit_code_of(report) == 1
