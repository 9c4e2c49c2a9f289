"""Who is to blame for dead workers: a simulation of workers that die under culprits."""

import math
import random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from onbeat.model.attempt import OutcomeName
from onbeat.model.ids import Token, WorkerId
from onbeat.model.job import Job, JobState, Suspicion
from onbeat.model.limits import LOST_BESIDE_MAX, LOST_MAX
from onbeat.model.outcome import Evidence, Lost
from onbeat.model.retry import RetryPolicy
from onbeat.rules.settlement import attempt_of, settle
from onbeat.rules.suspicion import (
    ALONE_MIN,
    FREE_LOSSES,
    company_after,
    returned_after,
    suspicion_after,
)
from onbeat.testing.build import NOW, SECOND, a_job, a_worker

PLAIN = RetryPolicy(attempts_max=3, delay=SECOND, jitter=False)


def running(**fields: Any) -> Job:
    job = a_job(
        state=JobState.RUNNING,
        attempt=1,
        token=Token(1),
        worker=WorkerId("w"),
        started_at=NOW,
        retry=PLAIN,
    )
    return replace(job, **fields)


def lost(job: Job, *losses: Lost) -> Job:
    for loss in losses:
        assert not job.is_final
        job = settle(replace(job, state=JobState.RUNNING, started_at=NOW), loss, NOW, 0.5)
    return job


def beside(company: int, **fields: Any) -> Lost:
    return Lost("w died", company=company, **fields)


# What is held against a job.


def test_the_first_loss_leaves_no_bound() -> None:
    """A machine that was lost: what it ran goes on at once, beside whatever runs elsewhere."""
    job = lost(running(), *[beside(47)] * FREE_LOSSES)
    assert job.suspicion == Suspicion(alone=0, company_max=None)
    assert lost(job, beside(47)).suspicion.company_max == 23


def test_each_further_loss_halves_the_company_until_the_job_is_alone() -> None:
    job, bounds = running(lost=FREE_LOSSES), []
    for company in (47, 23, 11, 5, 2):
        job = lost(job, beside(company))
        bounds.append(job.suspicion.company_max)
    assert bounds == [23, 11, 5, 2, 1]
    assert job.suspicion == Suspicion(alone=0, company_max=1)


def test_a_job_that_was_lost_in_small_company_is_not_given_more() -> None:
    assert company_after(8, 2) == 1
    assert company_after(2, 8) == 1
    assert company_after(None, 1) == 1


def test_a_process_of_its_own_is_evidence_and_bounds_no_company() -> None:
    assert suspicion_after(running(), beside(0)) == Suspicion(alone=1, company_max=None)
    narrowed = running(suspicion=Suspicion(1, 4), lost=2)
    assert suspicion_after(narrowed, beside(0)) == Suspicion(alone=2, company_max=4)


def test_deaths_of_several_workers_at_once_are_no_evidence() -> None:
    job = lost(running(), *[beside(1, is_shared=True)] * (LOST_MAX + 5))
    assert (job.state, job.suspicion) == (JobState.WAITING, Suspicion(alone=0, company_max=1))


def test_where_nobody_died_nothing_is_evidence() -> None:
    job = lost(running(), *[beside(1, evidence=Evidence.ROWLESS)] * (LOST_MAX + 5))
    assert job.suspicion.alone == 0


# Its end, with its evidence.

ENDS = [
    ([1, 1, 1], "its worker died 3 times while it ran, each time alone; last: w died"),
    ([47, 1, 1], "its worker died 3 times while it ran, twice alone; last: w died"),
    ([0, 0, 0], "its process died 3 times while it ran, each time alone; last: w died"),
    ([9, 4, 2, 1, 1], "its worker died 5 times while it ran, twice alone; last: w died"),
]


@pytest.mark.parametrize(("companies", "told"), ENDS)
def test_poison_names_its_evidence(companies: list[int], told: str) -> None:
    job = lost(running(), *map(beside, companies))
    assert (job.state, job.reason) == (JobState.FAILED, f"poison: {told}")
    assert (job.error, job.lost) == ("w died", len(companies))
    assert job.suspicion is None


@pytest.mark.parametrize("companies", [[47, 23, 11, 5, 2], [47, 23, 1], [1, 1], [5] * 9])
def test_less_than_that_ends_no_job(companies: list[int]) -> None:
    assert lost(running(), *map(beside, companies)).state is JobState.WAITING


def test_one_death_is_told_as_one() -> None:
    job = lost(running(retry=replace(PLAIN, lost_max=1)), beside(1))
    assert job.reason == "poison: its worker died once while it ran, alone; last: w died"


@pytest.mark.parametrize("lost_max", [1, 2, 5])
def test_a_policy_may_say_how_many_workers_may_die(lost_max: int) -> None:
    policy = replace(PLAIN, lost_max=lost_max)
    nearly = lost(running(retry=policy), *[beside(1)] * (lost_max - 1))
    assert not nearly.is_final
    assert lost(nearly, beside(1)).state is JobState.FAILED


def test_one_death_beside_others_is_no_evidence_even_where_one_is_enough() -> None:
    job = lost(running(retry=replace(PLAIN, lost_max=1)), beside(2))
    assert job.state is JobState.WAITING


def test_a_job_that_cannot_be_got_apart_ends_as_well() -> None:
    job = lost(running(), *[beside(5)] * (LOST_BESIDE_MAX - 1))
    assert job.state is JobState.WAITING
    last = lost(job, beside(5))
    assert last.state is JobState.FAILED
    assert last.reason.startswith(f"poison: its worker died {LOST_BESIDE_MAX} times")
    assert "never alone" in last.reason


def test_what_neighbours_explain_makes_nobody_wait_longer_and_longer() -> None:
    job = lost(running(), *[beside(5)] * 9)
    assert job.due_at == NOW + SECOND


# Workers that return.


def an_attempt(worker: Any, *, finished_at: Any = NOW, outcome: Any = OutcomeName.LOST) -> Any:
    job = running(worker=WorkerId(worker))
    return replace(attempt_of(job, beside(1), finished_at), outcome=outcome)


def beaten(worker: Any, at: Any) -> Any:
    return a_worker(id=WorkerId(worker), beat_at=at)


def test_a_worker_that_beats_after_it_was_called_dead_has_returned() -> None:
    answer = [an_attempt("a"), an_attempt("b"), an_attempt("b"), an_attempt("c")]
    rows = [beaten("a", NOW), beaten("b", NOW + SECOND), beaten("d", NOW + SECOND)]
    assert returned_after(answer, rows) == 2
    assert returned_after(answer, [a_worker(id=WorkerId("a"), beat_at=None)]) == 0


@pytest.mark.parametrize("outcome", set(OutcomeName) - {OutcomeName.LOST})
def test_only_losses_are_taken_back(outcome: Any) -> None:
    assert returned_after([an_attempt("a", outcome=outcome)], [beaten("a", NOW + SECOND)]) == 0


def test_a_network_that_is_cut_again_and_again_makes_no_poison() -> None:
    """All workers but the last have returned by the time of each verdict."""
    job = running()
    for before in range(LOST_BESIDE_MAX - 2):
        job = lost(job, beside(1, returned=before))
    assert job.state is JobState.WAITING


def test_in_the_end_it_does_since_every_job_ends() -> None:
    job = running()
    while not job.is_final:
        job = lost(job, beside(1, returned=job.lost))
    assert job.lost <= LOST_BESIDE_MAX + 1


def test_deaths_after_losses_that_were_none_are_counted_alone() -> None:
    job = lost(running(), beside(1), beside(1), beside(1, returned=2))
    job = lost(job, beside(1, returned=2))
    assert job.state is JobState.WAITING
    job = lost(job, beside(1, returned=2))
    assert (job.state, job.lost) == (JobState.FAILED, 5)
    assert "its worker died 3 times while it ran, each time alone" in job.reason


@given(st.lists(st.tuples(st.integers(1, 9), st.booleans()), max_size=40))
def test_no_job_is_given_up_without_its_deaths_alone(losses: Any) -> None:
    """Of any history: `returned` losses are never among the evidence."""
    job, returned, deaths = running(), 0, 0
    for company, returns in losses:
        job = lost(job, beside(company, returned=returned))
        deaths += company == 1
        if job.is_final:
            assert deaths - returned >= ALONE_MIN or job.lost + returned >= LOST_BESIDE_MAX
            return
        returned += returns


# Bisection, whatever the order.


def play(count: int, culprits: set[int], slots: int, seed: int) -> tuple[dict[Any, Any], int]:
    """Work off `count` jobs, of which the `culprits` kill their worker; answers with the deaths.

    The worker holds as many as the strictest of them allows, in any order.
    """
    dice, deaths = random.Random(seed), 0
    jobs = {number: running() for number in range(count)}
    while alive := [number for number, job in jobs.items() if not job.is_final]:
        dice.shuffle(alive)
        held: list[int] = []
        bound = slots
        for number in alive:
            own = (jobs[number].suspicion or Suspicion()).company_max or slots
            if len(held) < min(bound, own):
                held.append(number)
                bound = min(bound, own)
        if culprits & set(held):
            deaths += 1
            for number in held:
                jobs[number] = lost(jobs[number], beside(len(held)))
        else:
            for number in held:
                jobs[number] = replace(jobs[number], state=JobState.SUCCEEDED)
    return jobs, deaths


@given(
    count=st.integers(1, 80),
    share=st.integers(0, 5),
    slots=st.integers(1, 64),
    seed=st.integers(0, 2**32),
)
def test_innocents_succeed_culprits_end_and_few_workers_die(
    count: int, share: int, slots: int, seed: int
) -> None:
    culprits = set(random.Random(seed).sample(range(count), min(count, share)))
    jobs, deaths = play(count, culprits, slots, seed)
    for number, job in jobs.items():
        assert job.state is (JobState.FAILED if number in culprits else JobState.SUCCEEDED)
        if number in culprits:
            assert job.reason.startswith("poison: ")
            halvings = math.log2(min(count, slots))
            assert job.lost <= max(LOST_MAX, FREE_LOSSES + halvings + ALONE_MIN + 1)
    together = FREE_LOSSES + math.log2(min(count, slots)) if culprits else 0
    assert deaths <= len(culprits) * (together + LOST_MAX)


@given(st.lists(st.integers(2, 100), max_size=LOST_BESIDE_MAX - 1))
def test_no_death_that_a_neighbour_explains_ends_a_job(companies: list[int]) -> None:
    assert not lost(running(), *map(beside, companies)).is_final
