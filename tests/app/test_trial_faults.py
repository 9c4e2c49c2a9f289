"""Trials with crashes and lost answers, and histories that count effects."""

from datetime import timedelta

import pytest

from onbeat import Context, Invalid, Onbeat, Retry, every
from onbeat.app.task import Task
from onbeat.app.virtual_clock import MishapRates
from onbeat.model.limits import LOST_MAX
from onbeat.model.outcome import Failed, Succeeded
from onbeat.testing import Effects, VirtualRun, run_with_crashes

AT = "2026-01-01T00:00:00Z"
SOON = Retry(attempts_max=4, delay="1m", jitter=False)


def program() -> tuple[Onbeat, Task[[], str, str], list[int]]:
    beat, tokens = Onbeat("memory://"), list[int]()

    @beat.task("pay", retry=SOON)
    def pay(context: Context) -> str:
        tokens.append(context.attempt)
        return "paid"

    return beat, pay, tokens


@pytest.mark.parametrize(("after", "runs"), [("claim", 1), ("run", 2), ("settle", 1)])
def test_a_worker_dies_at_the_point_that_is_named(after: str, runs: int) -> None:
    beat, pay, tokens = program()
    with beat.testing(at=AT) as trial:
        trial.crash_worker(after=after)
        job = pay.send()
        assert job.result() == "paid"
        assert len(tokens) == runs
        assert beat.jobs.get(job.id).attempt == (1 if after == "settle" else 2)


def test_a_crash_waits_for_its_task_and_happens_so_many_times() -> None:
    beat, pay, tokens = program()

    @beat.task("other")
    def other() -> None: ...

    with beat.testing(at=AT) as trial:
        trial.crash_worker(after="claim", task="pay", times=2)
        other.send()
        pay.send()
        trial.advance("1h")
        trial.assert_ran("other", times=1)
        trial.assert_ran("pay", times=1)
        assert len(tokens) == 1
        (job,) = beat.jobs.list(task="pay")
        assert job.attempt == 3


def test_jobs_that_crash_at_every_attempt_end_as_poison() -> None:
    beat, pay, tokens = program()
    with beat.testing(at=AT) as trial:
        trial.crash_worker(after="run", times=100)
        job = pay.send()
        trial.advance("1d")
        assert beat.jobs.get(job.id).state == "failed"
        assert len(tokens) == LOST_MAX


def test_the_answer_of_a_target_is_lost_and_the_job_is_tried_again() -> None:
    beat, pay, tokens = program()
    with beat.testing(at=AT) as trial:
        trial.faults(seed=1, target_timeouts=1.0)
        job = pay.send()
        trial.advance("1d")
        assert len(tokens) == SOON.attempts_max
        assert beat.jobs.get(job.id).state == "succeeded", "chance leaves it its last attempt"


@pytest.mark.parametrize(
    "rates", [MishapRates(lost_answers=1.0), MishapRates(store_errors=1.0)], ids=repr
)
def test_an_outcome_is_stored_once_although_the_store_seems_away(rates: MishapRates) -> None:
    beat, pay, tokens = program()
    with beat.testing(at=AT) as trial:
        trial.faults(1, **rates)
        assert pay.send().result() == "paid"
        trial.faults(1)
        assert pay.send().result() == "paid"
        assert len(tokens) == 2
        assert [type(ran.outcome) for ran in trial.ran] == [Succeeded, Succeeded]


def test_what_cannot_be_is_refused() -> None:
    beat, _, _ = program()
    with beat.testing(at=AT) as trial:
        with pytest.raises(Invalid, match="after is one of claim, run, settle"):
            trial.crash_worker(after="lunch")
        with pytest.raises(Invalid, match="times"):
            trial.crash_worker(after="run", times=0)
        with pytest.raises(Invalid, match="crashes is a chance"):
            trial.faults(1, crashes=1.5)
        with pytest.raises(Invalid, match="more than 1 in sum"):
            trial.faults(1, crashes=0.7, lost_answers=0.7)


class Shop:
    """Orders that are charged, with or without care for repeats."""

    def __init__(self, *, careful: bool) -> None:
        self.beat = Onbeat("memory://")
        self.effects = Effects()
        self.charged: set[str] = set()

        @self.beat.task("charge", retry=SOON)
        def charge(context: Context, order: str) -> None:
            if careful and context.job_id in self.charged:
                return
            self.charged.add(context.job_id)
            self.effects.note(order)

        def order(_trial: VirtualRun) -> None:
            for name in ("apples", "pears"):
                self.effects.expect(name)
                charge.send(name)

        self.order = order


def test_histories_find_a_charge_that_is_made_twice_and_name_the_seed() -> None:
    shop = Shop(careful=False)
    report = run_with_crashes(shop.beat, shop.order, shop.effects, histories=10)
    assert report.doubled
    assert not report.lost
    first = report.doubled[0]
    again = run_with_crashes(
        shop.beat, shop.order, shop.effects, histories=1, first_seed=first.seed
    )
    assert first in again.doubled
    with pytest.raises(AssertionError, match=f"seed {first.seed}: .* was made 2 times"):
        again.assert_as_expected()


def test_a_handler_that_knows_its_job_is_right_in_every_history() -> None:
    shop = Shop(careful=True)
    report = run_with_crashes(shop.beat, shop.order, shop.effects, histories=20)
    report.assert_as_expected()
    assert report.histories == 20
    assert len(report.mishaps) == 6, "each mishap happened in some history"


def test_an_effect_that_a_handler_forgets_is_lost_and_a_scenario_may_be_a_coroutine() -> None:
    beat, effects = Onbeat("memory://"), Effects()

    @beat.task("mail", retry=SOON)
    def mail(context: Context) -> None:
        if context.attempt == 1:  # on a second attempt it believes that it has been sent
            effects.note("mail")

    async def scenario(_trial: VirtualRun) -> None:
        effects.expect("mail")
        await mail.asend()

    report = run_with_crashes(beat, scenario, effects, histories=20)
    assert report.lost


def test_a_year_of_a_schedule_passes_in_seconds() -> None:
    beat, ran = Onbeat("memory://"), list[int]()

    @beat.schedule(every("6h"), key="watch")
    def watch() -> None:
        ran.append(len(ran))

    with beat.testing(at=AT) as trial:
        trial.advance(timedelta(days=365))
        assert len(ran) in {1459, 1460}
        assert not [one for one in trial.ran if isinstance(one.outcome, Failed)]
