"""What receivers say of an attempt later, at the address that came with their request."""

from datetime import timedelta
from typing import Any
from urllib.parse import parse_qs, urlsplit

import msgspec
import pytest

from onbeat.model.errors import Forbidden, Invalid, LeaseLost, NotFound
from onbeat.model.ids import JobId
from onbeat.model.job import Job, JobState, Progress
from onbeat.model.outcome import Lost
from onbeat.model.worker import RECEIVER
from onbeat.operations.reports import report, report_address
from onbeat.operations.tables.fleet import WORKER_LIST
from onbeat.operations.tables.jobs import JOB_CANCEL, JOB_ENQUEUE, JOB_SHOW
from onbeat.ports.store import ClaimRequest, Settlement
from onbeat.rules.settlement import attempt_of, settle
from onbeat.stores.memory import MemoryStore
from onbeat.wire.decode import decode
from onbeat.wire.reports import ReportBody, SealedReport
from operations.harness import WORKER, OperationsHarness

TIME = timedelta(minutes=10)
CALL = {"target": {"http": {"url": "https://api.example.com/x"}}, "timeout": 600}
DONE = {"outcome": "succeeded", "result": {"rows": 3}}


class ReceiverHarness(OperationsHarness):
    async def call(self, **body: Any) -> tuple[Job, str]:
        """A job whose callback has been sent, and the address that came with it."""
        await self.ask(JOB_ENQUEUE, CALL | body)
        (job,) = await self.claim()
        until = self.clock.at + TIME
        return job, await report_address(self.store, "https://jobs.example.com", job, until)

    async def accepted(self, **body: Any) -> tuple[Job, str]:
        """The same after the answer 202."""
        job, address = await self.call(**body)
        assert await self.store.hand_over(job.id, job.token, self.clock.at + TIME)
        return job, address

    async def report(self, address: str, body: object) -> dict[str, Any]:
        parts = urlsplit(address)
        sealed = SealedReport(
            id=parts.path.rpartition("/")[2],
            seal=parse_qs(parts.query)["seal"][0],
            report=decode(ReportBody, msgspec.json.encode(body)),
        )
        answer = await report(self.context, sealed)
        return msgspec.json.decode(msgspec.json.encode(answer))

    async def job(self, job: Job) -> Job:
        found = await self.store.job(job.id)
        assert found is not None
        return found

    async def lose(self, job: Job) -> None:
        """The worker has died, and the rescuer found it."""
        lost, now = Lost("no heartbeat"), self.clock.at
        ended = Settlement(job=settle(job, lost, now, 0.5), attempt=attempt_of(job, lost, now))
        assert list(await self.store.settle([ended])) == [True]


async def test_a_report_settles_the_attempt() -> None:
    office = ReceiverHarness()
    job, address = await office.accepted()
    assert (await office.job(job)).worker == RECEIVER
    office.move(minutes=9)
    assert await office.report(address, DONE) == {
        "settled": True,
        "state": "succeeded",
        "cancel_reason": None,
    }
    shown = await office.ask(JOB_SHOW, id=job.id)
    assert (shown["state"], shown["result"]) == ("succeeded", {"rows": 3})
    assert [one["outcome"] for one in shown["attempts"]] == ["succeeded"]


async def test_a_failure_is_tried_again_unless_the_receiver_forbids_it() -> None:
    office = ReceiverHarness()
    job, address = await office.accepted()
    answer = await office.report(address, {"outcome": "failed", "error": "no disk"})
    assert (answer["state"], (await office.job(job)).error) == ("waiting", "no disk")
    office = ReceiverHarness()
    job, address = await office.accepted()
    final = {"outcome": "failed", "error": "no such page", "retry": False}
    assert (await office.report(address, final))["state"] == "failed"
    assert (await office.job(job)).reason == "not retryable"


async def test_a_repeated_report_gets_the_same_answer_and_another_is_refused() -> None:
    office = ReceiverHarness()
    _, address = await office.accepted()
    first = await office.report(address, DONE)
    office.move(hours=1)
    assert await office.report(address, DONE) == first
    with pytest.raises(LeaseLost, match="is succeeded: the lease of this attempt has ended"):
        await office.report(address, {"outcome": "succeeded", "result": 4})
    with pytest.raises(LeaseLost, match="is succeeded"):
        await office.report(address, {"outcome": "running"})


async def test_a_report_before_the_hand_over_settles_and_leaves_nothing_to_hand_over() -> None:
    office = ReceiverHarness()
    job, address = await office.call()
    assert (await office.job(job)).worker == WORKER
    assert (await office.report(address, DONE))["state"] == "succeeded"
    assert await office.store.hand_over(job.id, job.token, office.clock.at + TIME) is False
    assert (await office.job(job)).state is JobState.SUCCEEDED


async def test_a_report_of_an_attempt_that_was_lost_is_stale() -> None:
    office = ReceiverHarness()
    job, address = await office.call()
    await office.lose(job)
    with pytest.raises(LeaseLost, match="is waiting"):
        await office.report(address, DONE)
    (again,) = await office.claim()
    with pytest.raises(LeaseLost, match="runs as attempt 2 under another lease"):
        await office.report(address, DONE)
    with pytest.raises(LeaseLost, match="runs as attempt 2 under another lease"):
        await office.report(address, {"outcome": "running"})
    assert await office.job(job) == again


async def test_a_report_counts_until_the_deadline() -> None:
    office = ReceiverHarness()
    job, address = await office.accepted()
    office.clock.at += TIME
    assert (await office.report(address, {"outcome": "running"}))["settled"] is False
    office.move(microseconds=1)
    for body in (DONE, {"outcome": "running"}):
        with pytest.raises(LeaseLost, match=r"The time to report ended at 2026-03-02T12:10:00Z"):
            await office.report(address, body)
    assert (await office.job(job)).state is JobState.RUNNING


async def test_progress_is_stored_and_tells_of_a_cancel() -> None:
    office = ReceiverHarness()
    job, address = await office.accepted()
    going = {"outcome": "running", "progress": {"done": 1, "total": 3}}
    assert (await office.report(address, going))["cancel_reason"] is None
    assert (await office.job(job)).progress == Progress(1.0, 3.0)
    await office.ask(JOB_CANCEL, {"reason": "by hand"}, id=job.id)
    answer = await office.report(address, {"outcome": "running"})
    assert answer == {"settled": False, "state": "running", "cancel_reason": "by hand"}
    answer = await office.report(address, {"outcome": "failed", "error": "stopped"})
    assert answer["state"] == "cancelled"
    assert (await office.job(job)).reason == "by hand"


async def test_a_job_that_succeeded_despite_its_cancel_has_succeeded() -> None:
    office = ReceiverHarness()
    job, address = await office.accepted()
    await office.ask(JOB_CANCEL, {"reason": "by hand"}, id=job.id)
    assert (await office.report(address, DONE))["state"] == "succeeded"


class Slow(MemoryStore):
    """Another report settles the job while this one is on its way."""

    async def job(self, id: JobId) -> Job | None:
        job = await super().job(id)
        if job is not None and job.state is JobState.RUNNING:
            lost = Lost("no heartbeat")
            at = job.due_at + timedelta(seconds=1)
            await self.settle(
                [Settlement(job=settle(job, lost, at, 0.5), attempt=attempt_of(job, lost, at))]
            )
        return job


@pytest.mark.parametrize(
    "body", [DONE, {"outcome": "running", "progress": {"done": 1}}], ids=["end", "progress"]
)
async def test_of_a_report_and_a_rescue_at_once_one_counts(body: object) -> None:
    office = ReceiverHarness(Slow())
    job, address = await office.accepted()
    with pytest.raises(LeaseLost):
        await office.report(address, body)
    found = await office.store.job(job.id)
    assert found is not None
    assert found.state is JobState.WAITING


async def test_an_address_of_another_job_is_forged() -> None:
    office = ReceiverHarness()
    first, address = await office.accepted()
    second, _ = await office.accepted()
    with pytest.raises(Forbidden, match=f"not given out for job {second.id}"):
        await office.report(address.replace(first.id, second.id), DONE)
    with pytest.raises(Forbidden):
        await office.report(address + "A", DONE)
    with pytest.raises(Invalid):
        await office.report(address.replace(first.id, "x"), DONE)
    assert (await office.job(second)).state is JobState.RUNNING


async def test_a_job_that_was_deleted_is_not_found() -> None:
    office = ReceiverHarness()
    job, address = await office.accepted()
    await office.report(address, DONE)
    later = office.clock.at + timedelta(days=1)
    assert await office.store.prune(finished_before=later, failed_before=later, limit=10) == 1
    with pytest.raises(NotFound, match=job.id):
        await office.report(address, DONE)


async def test_a_worker_elsewhere_does_not_take_it_over() -> None:
    office = ReceiverHarness()
    job, _ = await office.accepted()
    assert list(await office.store.start(WORKER, [(job.id, job.token)], office.clock.at)) == [None]
    request = ClaimRequest(worker=WORKER, now=office.clock.at, limit=1, lanes=frozenset({"@http"}))
    assert (await office.store.claim(request)).jobs == ()


async def test_the_list_of_workers_has_the_jobs_of_receivers() -> None:
    office = ReceiverHarness()
    job, _ = await office.accepted()
    (receiver,) = (await office.ask(WORKER_LIST))["remote"]
    assert (receiver["name"], receiver["running"]) == ("receiver", 1)
    assert receiver["jobs"][0]["id"] == job.id
