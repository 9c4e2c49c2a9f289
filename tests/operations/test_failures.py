"""Failures by fault, and dead letters by group, as a caller asks for them."""

from collections.abc import Sequence
from datetime import timedelta
from typing import Any

import pytest
from msgspec.structs import replace

from onbeat.model.dead_letter import DeadLetter
from onbeat.model.errors import Invalid, NotFound
from onbeat.model.fault import FaultChange
from onbeat.model.ids import DeadLetterId
from onbeat.model.job import Job, JobState
from onbeat.model.limits import (
    FAULT_LISTED_JOBS_MAX,
    FAULT_NOTE_CHARS_MAX,
    FAULT_SPREAD_ATTEMPTS,
    REPLAY_MAX,
)
from onbeat.model.outcome import Failed
from onbeat.operations import dead_letter_groups
from onbeat.operations.tables.administration import AUDIT_LIST
from onbeat.operations.tables.failures import (
    DEAD_DELETE_GROUP,
    DEAD_GROUPS,
    DEAD_LIST,
    DEAD_REPLAY_GROUP,
    FAILURE_LIST,
    FAILURE_NOTE,
    FAILURE_REPLAY,
    FAILURE_SHOW,
    FAILURE_SILENCE,
)
from onbeat.operations.tables.jobs import JOB_ENQUEUE, JOB_LIST, JOB_SHOW
from onbeat.ports.store import Settlement
from onbeat.rules.faults import key_from
from onbeat.rules.settlement import attempt_of, settle
from onbeat.testing.build import a_job
from operations.harness import NOON, OperationsHarness

pytestmark = pytest.mark.asyncio
UNKNOWN = "123"


@pytest.fixture
def harness() -> OperationsHarness:
    async def knows(task: str) -> bool:
        return task == "work"

    return OperationsHarness(knows_task=knows)


async def fail(
    harness: OperationsHarness, error: str, task: str = "work", **body: object
) -> dict[str, Any]:
    """One job that fails for good; as it is listed."""
    made = await harness.ask(JOB_ENQUEUE, {"task": task, **body})
    await harness.run(Failed(error, retryable=False), task)
    return await harness.ask(JOB_SHOW, id=made["id"])


async def fail_at_once(harness: OperationsHarness, count: int) -> Sequence[Job]:
    """So many jobs that failed alike, each for a number of its own."""
    now = harness.clock.at
    await harness.store.enqueue([a_job(created_at=now, due_at=now) for _ in range(count)])
    claimed = await harness.claim("work", limit=count)
    ended: list[Settlement] = []
    for number, job in enumerate(claimed):
        outcome = Failed(f"order {number} failed", retryable=False)
        ended.append(
            Settlement(job=settle(job, outcome, now, 0.5), attempt=attempt_of(job, outcome, now))
        )
    assert all(await harness.store.settle(ended))
    for one in ended:
        harness.context.faults.note(one.job, one.attempt)
    await harness.store.note_faults(harness.context.faults.take())
    return [one.job for one in ended]


async def states(harness: OperationsHarness, **filter: str) -> list[str]:
    return [job["state"] for job in (await harness.ask(JOB_LIST, **filter))["jobs"]]


async def test_ten_thousand_failures_are_one_group(harness: OperationsHarness) -> None:
    await fail_at_once(harness, 10_000)
    (one,) = (await harness.ask(FAILURE_LIST))["failures"]
    assert (one["title"], one["attempts"]) == ("order # failed", 10_000)
    assert one["failed"] == FAULT_LISTED_JOBS_MAX + 1  # it stands for more
    assert one["hours"] == [*[0] * 23, 10_000]
    detail = await harness.ask(FAILURE_SHOW, fault=one["fault"])
    assert (detail["failed"], len(detail["hours"]), len(detail["jobs"])) == (10_000, 168, 10)


async def test_jobs_tell_their_fault_and_are_listed_by_it(harness: OperationsHarness) -> None:
    job = await fail(harness, "order 1 failed")
    await fail(harness, "another")
    good = await harness.ask(JOB_ENQUEUE, {"task": "work"})
    assert "fault" not in await harness.ask(JOB_SHOW, id=good["id"])
    listed = await harness.ask(JOB_LIST, fault=job["fault"])
    assert [one["id"] for one in listed["jobs"]] == [job["id"]]


async def test_failures_are_ordered_filtered_and_paged(harness: OperationsHarness) -> None:
    often = await fail(harness, "often 1")
    await fail(harness, "often 2")
    await fail(harness, "billing is away", "charge", queue="bills")
    rare = await fail(harness, "rare")

    async def titles(**named: str) -> list[str]:
        return [one["title"] for one in (await harness.ask(FAILURE_LIST, **named))["failures"]]

    assert await titles() == ["rare", "billing is away", "often #"]
    assert (await titles(order="count"))[0] == "often #"
    assert await titles(order="first") == ["rare", "billing is away", "often #"]
    assert await titles(q="BILL") == ["billing is away"]
    assert await titles(task="charge") == ["billing is away"]
    assert await titles(queue="bills") == ["billing is away"]
    assert await titles(since=rare["finished_at"]) == ["rare"]
    first = await harness.ask(FAILURE_LIST, limit="2")
    assert (first["total"], first["cursor"]) == (3, "2")
    assert await titles(limit="2", cursor=first["cursor"]) == ["often #"]
    shown = await harness.ask(FAILURE_SHOW, fault=often["fault"])
    assert (shown["attempts"], shown["failed"], shown["waiting"]) == (2, 2, 0)


@pytest.mark.parametrize("named", [{"cursor": "x"}, {"order": "up"}, {"limit": "0"}])
async def test_a_bad_listing_is_refused(harness: OperationsHarness, named: dict[str, str]) -> None:
    with pytest.raises(Invalid, match=next(iter(named))):
        await harness.ask(FAILURE_LIST, **named)


@pytest.mark.parametrize("fault", ["x", "-1", "9" * 19, "9" * 20, "", "１"])
async def test_what_is_no_fault_is_refused(harness: OperationsHarness, fault: str) -> None:
    with pytest.raises(Invalid, match="fault"):
        await harness.ask(FAILURE_SHOW, fault=fault)


async def test_an_unknown_fault_is_said_so(harness: OperationsHarness) -> None:
    for operation, body in ((FAILURE_SHOW, None), (FAILURE_SILENCE, {"for": "1h"})):
        with pytest.raises(NotFound):
            await harness.ask(operation, body, fault=UNKNOWN)


async def test_a_fault_that_is_not_stored_is_told_by_its_jobs(harness: OperationsHarness) -> None:
    job = await fail(harness, "order 7 failed")
    await harness.store.prune_faults(harness.clock.at + timedelta(days=1))
    shown = await harness.ask(FAILURE_SHOW, fault=job["fault"])
    assert (shown["title"], shown["failed"]) == ("order # failed", 1)


async def test_replay_of_a_group_touches_only_it(harness: OperationsHarness) -> None:
    mine = [await fail(harness, f"order {n} failed") for n in range(3)]
    await fail(harness, "another")
    await fail(harness, "order 9 failed", "other")
    fault = mine[0]["fault"]
    told = await harness.ask(FAILURE_REPLAY, {"dry_run": True}, fault=fault)
    assert (told["matched"], told["done"], told["more"]) == (3, 3, False)
    assert await states(harness, state="failed") == ["failed"] * 5
    assert (await harness.ask(FAILURE_REPLAY, fault=fault))["done"] == 3
    assert await states(harness, fault=fault) == ["waiting"] * 3
    assert await states(harness, state="failed") == ["failed"] * 2
    again = await harness.ask(FAILURE_REPLAY, {}, fault=fault)
    assert (again["matched"], again["done"]) == (0, 0)


async def test_a_replay_is_bounded_and_goes_on(harness: OperationsHarness) -> None:
    jobs = await fail_at_once(harness, REPLAY_MAX + 1)
    fault = str(jobs[0].fault)
    first = await harness.ask(FAILURE_REPLAY, fault=fault)
    assert (first["done"], first["more"]) == (REPLAY_MAX, True)
    rest = await harness.ask(FAILURE_REPLAY, {"cursor": first["cursor"]}, fault=fault)
    assert (rest["done"], rest["more"], rest["cursor"]) == (1, False, None)
    for limit in (0, REPLAY_MAX + 1):
        with pytest.raises(Invalid, match="limit"):
            await harness.ask(FAILURE_REPLAY, {"limit": limit}, fault=fault)


async def test_what_cannot_be_retried_is_skipped(harness: OperationsHarness) -> None:
    held = await fail(harness, "order 1 failed", unique="a")
    await fail(harness, "order 2 failed")
    await harness.ask(JOB_ENQUEUE, {"task": "later", "unique": "a"})
    answer = await harness.ask(FAILURE_REPLAY, fault=held["fault"])
    assert (answer["matched"], answer["done"], answer["skipped"]) == (2, 1, 1)
    assert (await harness.ask(JOB_SHOW, id=held["id"]))["state"] == JobState.FAILED


async def test_sensitive_jobs_are_skipped_and_tell_nothing(harness: OperationsHarness) -> None:
    job = await fail(harness, "card 4111 failed", sensitive=True)
    shown = await harness.ask(FAILURE_SHOW, fault=job["fault"])
    assert "card" not in shown["title"]
    answer = await harness.ask(FAILURE_REPLAY, fault=job["fault"])
    assert (answer["matched"], answer["done"], answer["skipped"]) == (1, 0, 1)


async def test_a_fault_is_silenced_for_a_time(harness: OperationsHarness) -> None:
    fault = (await fail(harness, "it broke"))["fault"]
    told = await harness.ask(FAILURE_SILENCE, {"for": "2h", "note": "known"}, fault=fault)
    assert told["silenced_until"] == f"{harness.clock.at + timedelta(hours=2):%FT%TZ}"
    assert (told["note"], "jobs" in told) == ("known", False)
    until = f"{NOON + timedelta(days=1):%FT%TZ}"
    told = await harness.ask(FAILURE_SILENCE, {"until": until}, fault=fault)
    assert (told["silenced_until"], told["note"]) == (until, None)
    told = await harness.ask(FAILURE_SILENCE, {"until": None, "note": "x"}, fault=fault)
    assert (told["silenced_until"], told["note"]) == (None, None)
    (record, *_) = (await harness.ask(AUDIT_LIST))["records"]
    assert (record["action"], record["object"]) == ("failure.silence", f"failure/{fault}")


@pytest.mark.parametrize("body", [{}, {"for": "1h", "until": None}, {"for": "x"}, {"for": -1}])
async def test_a_silence_needs_one_end(harness: OperationsHarness, body: object) -> None:
    fault = (await fail(harness, "it broke"))["fault"]
    with pytest.raises(Invalid, match=r"until|for"):
        await harness.ask(FAILURE_SILENCE, body, fault=fault)


async def test_a_fault_has_a_note_by_an_operator(harness: OperationsHarness) -> None:
    fault = (await fail(harness, "it broke"))["fault"]
    assert (await harness.ask(FAILURE_SHOW, fault=fault))["operator_note"] is None
    longest = "ü" * FAULT_NOTE_CHARS_MAX
    told = await harness.ask(FAILURE_NOTE, {"text": longest}, fault=fault)
    at = f"{harness.clock.at:%FT%TZ}"
    assert told["operator_note"] == {"text": longest, "by": "local", "at": at}
    with pytest.raises(Invalid, match="text"):
        await harness.ask(FAILURE_NOTE, {"text": longest + "x"}, fault=fault)
    (one,) = (await harness.ask(FAILURE_LIST))["failures"]
    assert one["operator_note"]["by"] == "local"
    assert (await harness.ask(FAILURE_NOTE, {"text": " "}, fault=fault))["operator_note"] is None
    with pytest.raises(NotFound):
        await harness.ask(FAILURE_NOTE, {"text": "x"}, fault="7")


async def test_a_fault_tells_where_its_newest_jobs_were(harness: OperationsHarness) -> None:
    for number in range(FAULT_SPREAD_ATTEMPTS + 1):
        labels = {"run": "a" if number else "b", "all": "same"}
        last = await fail(harness, "it broke", labels=labels, queue="mail" if number else "late")
    spread = (await harness.ask(FAILURE_SHOW, fault=last["fault"]))["spread"]
    jobs = FAULT_SPREAD_ATTEMPTS + 1
    assert (spread["jobs"], spread["attempted"]) == (jobs, FAULT_SPREAD_ATTEMPTS)
    assert spread["by_queue"] == [{"name": "mail", "jobs": jobs - 1}, {"name": "late", "jobs": 1}]
    assert [(one["name"], one["jobs"]) for one in spread["by_label"]] == [
        ("all:same", jobs),
        ("run:a", jobs - 1),
        ("run:b", 1),
    ]
    assert [one["jobs"] for one in spread["by_worker"]] == [FAULT_SPREAD_ATTEMPTS]


async def test_a_dry_run_is_audited_as_no_change(harness: OperationsHarness) -> None:
    fault = (await fail(harness, "it broke"))["fault"]
    await harness.ask(FAILURE_REPLAY, {"dry_run": True}, fault=fault)
    await harness.ask(FAILURE_REPLAY, {}, fault=fault)
    outcomes = [record["outcome"] for record in (await harness.ask(AUDIT_LIST))["records"]]
    assert outcomes[:2] == ["done", "unchanged"]


# Dead letters


async def bury(harness: OperationsHarness, *reasons: str, source: str = "onbeat.submit") -> None:
    """Letters that can be read, one for each reason."""
    letters: list[DeadLetter] = []
    for number, reason in enumerate(reasons):
        body = f'{{"jsonrpc":"2.0","method":"submit:work","params":{{"n":{number}}}}}'
        letters.append(
            DeadLetter(
                id=DeadLetterId(harness.context.fresh_id()),
                at=harness.clock.at,
                source=source,
                reason=reason,
                body=body.encode(),
            )
        )
    await harness.store.add_dead_letters(letters)


async def test_dead_letters_replay_by_group(harness: OperationsHarness) -> None:
    await bury(harness, "no room for 1", "no room for 22", "unreadable")
    await bury(harness, "no room for 3", source="onbeat.results")
    answer = await harness.ask(DEAD_GROUPS)
    counts = {(one["source"], one["reason"]): one["letters"] for one in answer["groups"]}
    assert counts == {
        ("onbeat.submit", "no room for #"): 2,
        ("onbeat.submit", "unreadable"): 1,
        ("onbeat.results", "no room for #"): 1,
    }
    assert (answer["total"], answer["looked_at"], answer["more"]) == (3, 4, False)
    mine = next(one for one in answer["groups"] if one["letters"] == 2)
    told = await harness.ask(DEAD_REPLAY_GROUP, {"dry_run": True}, group=mine["group"])
    assert (told["matched"], told["done"]) == (2, 2)
    assert len((await harness.ask(DEAD_LIST))["letters"]) == 4
    done = await harness.ask(DEAD_REPLAY_GROUP, {}, group=mine["group"])
    assert (done["done"], done["skipped"], done["more"]) == (2, 0, False)
    left = {letter["reason"] for letter in (await harness.ask(DEAD_LIST))["letters"]}
    assert left == {"unreadable", "no room for 3"}
    assert await states(harness) == ["waiting", "waiting"]


async def test_letters_that_cannot_be_replayed_stay(harness: OperationsHarness) -> None:
    await bury(harness, "lost 1", "lost 2", source="webhook")
    (one,) = (await harness.ask(DEAD_GROUPS))["groups"]
    answer = await harness.ask(DEAD_REPLAY_GROUP, {}, group=one["group"])
    assert (answer["matched"], answer["done"], answer["skipped"]) == (2, 0, 2)
    assert len((await harness.ask(DEAD_LIST))["letters"]) == 2


async def test_a_group_of_dead_letters_is_deleted(harness: OperationsHarness) -> None:
    await bury(harness, "a 1", "b", "a 2", "a 3")
    groups = {one["reason"]: one["group"] for one in (await harness.ask(DEAD_GROUPS))["groups"]}
    told = await harness.ask(DEAD_DELETE_GROUP, {"dry_run": True}, group=groups["a #"])
    assert told["done"] == 3
    first = await harness.ask(DEAD_DELETE_GROUP, {"limit": 2}, group=groups["a #"])
    assert (first["done"], first["more"]) == (2, True)
    more = {"cursor": first["cursor"]}
    rest = await harness.ask(DEAD_DELETE_GROUP, more, group=groups["a #"])
    assert (rest["done"], rest["more"]) == (1, False)
    assert [one["reason"] for one in (await harness.ask(DEAD_LIST))["letters"]] == ["b"]
    gone = await harness.ask(DEAD_DELETE_GROUP, more, group=groups["a #"])
    assert (gone["matched"], gone["done"]) == (0, 0)
    with pytest.raises(NotFound):
        await harness.ask(DEAD_DELETE_GROUP, {}, group=groups["a #"])


async def test_groups_are_of_the_newest_letters(
    harness: OperationsHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dead_letter_groups, "FAULT_JOBS_MAX", 3)
    await bury(harness, "a 1", "a 2", "b", "b", "b")
    answer = await harness.ask(DEAD_GROUPS)
    assert (answer["total"], answer["looked_at"], answer["more"]) == (1, 3, True)
    group = str(key_from("dead-letter", "onbeat.submit", "a #"))
    first = await harness.ask(DEAD_REPLAY_GROUP, {}, group=group)
    assert (first["matched"], first["more"]) == (0, True)
    rest = await harness.ask(DEAD_REPLAY_GROUP, {"cursor": first["cursor"]}, group=group)
    assert (rest["matched"], rest["done"], rest["more"]) == (2, 2, False)


async def test_others_are_listed_too(harness: OperationsHarness) -> None:
    job = await fail(harness, "it broke")
    record = await harness.store.fault(int(job["fault"]))
    assert record is not None
    change = FaultChange(
        fault=0, task="@other", queue="default", title="Other failures", place="",
        first_at=NOON, last_at=NOON, attempts=7, hours={}, sample_job=job["id"],
    )  # fmt: skip
    await harness.store.note_faults([replace(change, attempts=3), change])
    shown = await harness.ask(FAILURE_SHOW, fault="0")
    assert (shown["attempts"], shown["failed"], shown["jobs"]) == (10, 0, [])
