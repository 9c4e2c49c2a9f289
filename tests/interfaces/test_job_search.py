"""One search and one answer to why, over every interface."""

import json
from datetime import timedelta
from typing import Any

from click.testing import CliRunner

from dashboard.office import DashboardOffice
from interfaces.rest_client import RestClient
from onbeat import Onbeat
from onbeat.cli.main import root
from onbeat.operations.tables.jobs import JOB_WHY
from onbeat.testing.build import a_job
from operations.harness import OperationsHarness


def run(*args: str) -> Any:
    result = CliRunner().invoke(root, args)
    assert result.exit_code == 0, result.output
    return result.output


async def test_a_label_may_be_given_several_times() -> None:
    office = DashboardOffice()
    both, one = a_job(labels={"a": "b", "c": "d"}), a_job(labels={"a": "b"})
    await office.harness.store.enqueue([both, one])
    browser = await office.session()
    key = {"authorization": "Bearer admin-key-of-the-test-0001"}
    api = RestClient(office.app, **key)
    for query in ("label=a:b&label=c:d", "label=a:b,c:d"):
        found = (await api.get(f"/api/jobs?{query}")).json["jobs"]
        assert [job["id"] for job in found] == [both.id], query
    assert (await api.get("/api/jobs?queue=a&queue=b")).status == 422
    assert both.id in (await browser.get("/jobs?label=a%3Ab")).body.decode()


def test_the_command_line_searches_as_the_api_does(tmp_path: Any) -> None:
    store = f"sqlite:///{tmp_path}/onbeat.db"
    for label in ("run=1", "run=2"):
        run("job", "add", "--store", store, "--task", "billing.charge", "--label", label)
    by_label = run("job", "list", "--store", store, "--label", "run:1", "--since", "2h", "--json")
    (job,) = json.loads(by_label)["jobs"]
    assert job["labels"] == {"run": "1"}
    assert (
        json.loads(run("job", "list", "--store", store, "--until", "today", "--json"))["jobs"] == []
    )
    counted = run(
        "job", "bulk", "cancel", "--store", store, "--task", "bill*", "--dry-run", "--json"
    )
    assert json.loads(counted)["count"] == 2
    made = run("job", "bulk", "cancel", "--store", store, "--label", "run:1", "--yes", "--json")
    id = json.loads(made)["id"]
    assert "cancel" in run("bulk", "list", "--store", store)
    assert json.loads(run("bulk", "show", "--store", store, id, "--json"))["counted"] == 1
    assert "stopped: 0 done" in run("bulk", "stop", "--store", store, id)
    put_off = ["job", "bulk", "reschedule", "--store", store, "--yes", "--json"]
    found = json.loads(run(*put_off, "--run-at", "2030-01-01T12:00Z"))
    assert found["run_at"] == "2030-01-01T12:00:00Z"
    due = run("bulk", "show", "--store", store, found["id"])
    assert "due" in due


def test_a_bulk_is_not_made_without_a_yes(tmp_path: Any) -> None:
    store = f"sqlite:///{tmp_path}/onbeat.db"
    run("job", "add", "--store", store, "--task", "mail")
    result = CliRunner().invoke(root, ["job", "bulk", "cancel", "--store", store])
    assert result.exit_code == 2
    assert "cancel 1 waiting jobs? Give --yes" in result.output
    assert run("bulk", "list", "--store", store).strip() == "no bulks"


def test_a_time_that_is_none_is_refused(tmp_path: Any) -> None:
    store = f"sqlite:///{tmp_path}/onbeat.db"
    result = CliRunner().invoke(root, ["job", "list", "--store", store, "--since", "soon"])
    assert result.exit_code == 2
    assert "--since must be an instant" in result.output


def test_a_program_searches_and_acts_too(tmp_path: Any) -> None:
    beat = Onbeat(f"sqlite:///{tmp_path}/onbeat.db")

    @beat.task("mail")
    def mail() -> None: ...

    with_label: Any = mail.options(labels={"a": "b"}).send()
    mail.send()
    assert [job.id for job in beat.jobs.list(label="a:b")] == [with_label.id]
    assert [job.id for job in beat.jobs.page(label=["a:b"], task="ma*").jobs] == [with_label.id]
    counted = beat.jobs.bulk("cancel", dry_run=True)
    assert (counted.count, counted.created) == (2, False)
    made = beat.jobs.bulk("cancel", ids=[with_label.id], upto=counted.upto)
    assert beat.jobs.get_bulk(str(made.id)).counted == 1
    assert [bulk.id for bulk in beat.jobs.bulks()] == [made.id]
    assert beat.jobs.stop_bulk(str(made.id)).state == "stopped"
    later = beat.jobs.bulk("reschedule", delay=timedelta(hours=1), label="a:b")
    assert beat.jobs.get_bulk(str(later.id)).run_at == later.run_at
    beat.close()


async def test_why_is_the_same_in_api_and_page() -> None:
    office = DashboardOffice(harness=OperationsHarness())
    await office.harness.store.pause_queue("slow", paused=True)
    job = a_job(queue="slow")
    await office.harness.store.enqueue([job])
    told = (await office.harness.ask(JOB_WHY, id=job.id))["explanation"]
    assert told.startswith("Its queue slow is paused.")
    page = (await (await office.session()).get(f"/jobs/{job.id}")).body.decode()
    begin, instant, end = told.partition(f"{job.due_at:%Y-%m-%dT%H:%M:%SZ}")
    assert instant, "the page has it in the zone of its reader"
    assert begin in page
    assert end in page


def test_why_is_the_same_on_the_command_line(tmp_path: Any) -> None:
    store = f"sqlite:///{tmp_path}/onbeat.db"
    id = run("job", "add", "--store", store, "--task", "mail").strip()
    answer = json.loads(run("job", "why", "--store", store, id, "--json"))
    assert run("job", "why", "--store", store, id).startswith(answer["explanation"])


def test_the_command_line_tells_counts_and_who_paused_a_queue(tmp_path: Any) -> None:
    store = f"sqlite:///{tmp_path}/onbeat.db"
    for group in ("a", "a", "b"):
        add = ["job", "add", "--store", store, "--task", "mail", "--queue", "slow"]
        run(*add, "--group", group)
    assert "3 waiting" in run("job", "list", "--store", store, "--counts")
    counted = json.loads(run("job", "list", "--store", store, "--counts", "--json"))["counts"]
    assert counted["waiting"] == {"count": 3, "more": False, "about": False}
    run("queue", "pause", "slow", "--store", store, "--note", "the bank is shut")
    shown = " ".join(run("queue", "show", "slow", "--store", store).split())
    assert "the bank is shut" in shown
    assert "a 2 0 0%" in shown
    assert "2 groups have waiting jobs" in shown
    listed = " ".join(run("queue", "list", "--store", store).split())
    assert "slow is paused by" in listed
    assert "the bank is shut" in listed
    run("queue", "resume", "slow", "--store", store)
    assert "pause" not in json.loads(run("queue", "show", "slow", "--store", store, "--json"))


def test_a_program_tells_counts_and_who_paused_a_queue(tmp_path: Any) -> None:
    beat = Onbeat(f"sqlite:///{tmp_path}/onbeat.db")

    @beat.task("mail", queue="slow")
    def mail() -> None: ...

    mail.send()
    counts: Any = beat.jobs.page(counts=True).counts
    assert counts["waiting"].count == 1
    beat.queues.pause("slow", note="the bank is shut")
    pause: Any = beat.queues.get("slow").pause
    assert (pause.by, pause.note) == ("local", "the bank is shut")
    beat.close()
