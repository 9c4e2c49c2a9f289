from datetime import timedelta
from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from onbeat.model.job import JobState
from onbeat.model.schedule import ScheduleStatus
from onbeat.model.transition import Transition
from onbeat.model.worker import carrier_id
from onbeat.ports.store import JobExport
from onbeat.rules.merge import (
    as_imported,
    edited_since,
    is_further,
    is_newer,
    is_same,
    newer_schedules,
)
from onbeat.testing.build import NOW, a_job, a_schedule

SECOND = timedelta(seconds=1)
SCHEDULES = [a_schedule(), a_schedule()]
JOB = a_job()

schedules = st.builds(
    lambda schedule, version, edited, planned, finished: replace(
        schedule,
        version=version,
        updated_at=NOW + edited * SECOND,
        planned_through=NOW + planned * SECOND,
        status=ScheduleStatus.FINISHED if finished else ScheduleStatus.ACTIVE,
    ),
    st.sampled_from(SCHEDULES),
    st.integers(1, 3),
    st.integers(0, 2),
    st.integers(0, 2),
    st.booleans(),
)

STEPS = [Transition(job_id=JOB.id, at=NOW, to=to) for to in ("retried", "cancelled")]

histories = st.builds(
    lambda state, token, bound, blocked, steps: JobExport(
        job=replace(
            JOB,
            state=state,
            token=token,
            start_by=NOW if bound else None,
            blocked_by=blocked,
            worker="worker-1" if state is JobState.RUNNING else None,
        ),
        transitions=tuple(steps),
    ),
    st.sampled_from(JobState),
    st.integers(0, 2),
    st.booleans(),
    st.integers(0, 1),
    st.lists(st.sampled_from(STEPS), max_size=2),
)


def imported(history: JobExport) -> JobExport:
    return replace(history, job=as_imported(history.job))


@given(schedules, schedules)
def test_of_two_forms_of_a_schedule_one_is_newer_at_most(any: Any, other: Any) -> None:
    assert not (is_newer(any, other) and is_newer(other, any))


@given(st.lists(schedules, max_size=6), st.lists(schedules, max_size=2))
def test_schedules_copied_twice_change_nothing(coming: Any, stored: Any) -> None:
    here = {schedule.id: schedule for schedule in stored}
    newer = newer_schedules(coming, here)
    assert list(newer) == sorted(newer)
    assert {schedule.id for schedule in edited_since(newer, here)} <= here.keys()
    assert all(one.version > here[one.id].version for one in edited_since(newer, here))
    assert newer_schedules(coming, here | newer) == {}


@given(histories)
def test_nothing_runs_where_it_was_copied_to(history: Any) -> None:
    job = as_imported(history.job)
    assert job.state is not JobState.RUNNING
    assert job.worker is None
    assert job.token == history.job.token
    assert as_imported(job) == job


def test_a_job_on_its_way_to_a_worker_still_has_to_start_in_time() -> None:
    running = replace(JOB, state=JobState.RUNNING, token=1, start_by=NOW, worker="worker-1")
    assert as_imported(running).start_by is None
    assert as_imported(replace(running, worker=carrier_id("broker"))).start_by == NOW


@given(histories)
def test_a_job_copied_twice_is_the_same(history: Any) -> None:
    assert is_further(history, None)
    assert is_same(history, imported(history))
    assert not is_further(history, imported(history))


@given(histories, st.integers(0, 5))
def test_what_holds_a_job_back_makes_no_difference(history: Any, blocked: Any) -> None:
    here = imported(history)
    assert is_same(history, replace(here, job=replace(here.job, blocked_by=blocked)))


@given(histories, histories)
def test_of_two_that_both_do_not_run_one_is_further_at_most(any: Any, other: Any) -> None:
    assert not (
        is_further(imported(any), imported(other)) and is_further(imported(other), imported(any))
    )


@given(histories, histories)
def test_what_was_given_out_here_stays(coming: Any, here: Any) -> None:
    if here.job.state is JobState.RUNNING or here.job.token > coming.job.token:
        assert not is_further(coming, here)
