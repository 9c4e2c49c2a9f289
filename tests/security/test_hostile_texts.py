"""D4: a text in any place is a value: it changes no statement, and is found as it was given."""

import asyncio
from pathlib import Path

import pytest

from model_checks.places import STORES, opened
from onbeat.model.job import JobState
from onbeat.model.page import JobFilter, ScheduleFilter
from onbeat.testing.build import NOW, a_job, a_plan, a_schedule
from onbeat.testing.store_contract.steps import claim_jobs, ids_of

TEXTS = [
    "'",
    "''",
    '"',
    "`",
    "\\",
    "\\'",
    "';--",
    "'; DROP TABLE onbeat_jobs; --",
    "' OR '1'='1",
    '" OR ""="',
    "1; SELECT pg_sleep(9)",
    "' UNION SELECT name FROM sqlite_master --",
    "%",
    "_",
    "%' ESCAPE '",
    "100%",
    "a_b",
    "$1",
    "?",
    "?1",
    ":name",
    "@var",
    "%s",
    "%(name)s",
    "{0}",
    "{dialect}",
    "/* */",
    "-- ",
    "#",
    "$$x$$",
    "E'\\n'",
    "x'00'",
    "CHAR(39)",
    "$.a",
    "$[0]",
    "a.b[*]",
    "→ ünïcode 漢字 😀",
    "'||(SELECT 1)||'",
]


@pytest.mark.parametrize("kind", STORES)
def test_a_text_is_found_as_it_was_given_and_nothing_else_is(kind: str, tmp_path: Path) -> None:
    jobs = [a_job(text, queue=text, unique=text, group=text, labels={"of": text}) for text in TEXTS]
    schedules = [a_schedule(name=text, key=text) for text in TEXTS]
    with asyncio.Runner() as runner, opened(kind, tmp_path, runner, count=1) as (store,):
        runner.run(store.enqueue(jobs))
        for schedule in schedules:
            runner.run(store.add_schedule(schedule, a_plan(schedule)))
        for text, job, schedule in zip(TEXTS, jobs, schedules, strict=True):
            search = JobFilter(unique=text, task=text, label=(f"of:{text}",))
            for wanted in (JobFilter(queue=text), search):
                page = runner.run(store.jobs(wanted))
                assert ids_of(page.items) == [job.id], (text, wanted)
            named = runner.run(store.schedule_by_key(text))
            assert named is not None
            assert (named.id, named.name) == (schedule.id, text)
        again = runner.run(store.enqueue([a_job(text, unique=text) for text in TEXTS]))
        assert [(one.id, one.created) for one in again] == [(job.id, False) for job in jobs]
        everything = {"lanes": frozenset(TEXTS), "queues": tuple(TEXTS)}
        assert set(ids_of(runner.run(claim_jobs(store, **everything)))) == set(ids_of(jobs))
        for text, job in zip(TEXTS, jobs, strict=True):
            (ended,) = runner.run(store.cancel([job.id], text, NOW))
            assert ended is not None
            assert ended.cancel_reason == text
        counts = runner.run(store.stats(NOW)).jobs
        assert counts[JobState.RUNNING.value] == len(TEXTS)
        assert len(runner.run(store.schedules(ScheduleFilter(limit=100))).items) == len(TEXTS)
