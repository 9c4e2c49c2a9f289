"""Unique keys that ended jobs hold: what a caller sends, and is told."""

from datetime import timedelta
from typing import Any

import pytest

from onbeat import Onbeat
from onbeat.app.call import options
from onbeat.model.errors import Invalid
from onbeat.model.held_key import ALWAYS
from onbeat.model.ids import JobId
from onbeat.model.limits import SPAN_MAX
from onbeat.model.outcome import Succeeded
from onbeat.operations.context import TaskDefaults
from onbeat.operations.tables.jobs import JOB_ENQUEUE, JOB_SHOW, JOB_WHY
from operations.harness import NOON, OperationsHarness

DAY = timedelta(days=1)
KEYED = {"task": "work", "unique": "bill:7"}


@pytest.fixture
def office() -> OperationsHarness:
    return OperationsHarness()


@pytest.mark.parametrize(
    ("given", "shown"), [("31d", "31d"), (90, "1m30s"), ("always", "always"), (None, None)]
)
async def test_the_span_is_shown_as_it_counts(
    office: OperationsHarness, given: object, shown: object
) -> None:
    id = (await office.ask(JOB_ENQUEUE, KEYED | {"unique_for": given}))["id"]
    assert (await office.ask(JOB_SHOW, id=id))["unique_for"] == shown


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ({"unique_for": "0s"}, "must be from"),
        ({"unique_for": SPAN_MAX.total_seconds() + 1}, "must be from"),
        ({"unique_for": "for ever"}, "must be a span"),
        ({"unique_for": "1d", "unique": None}, "give unique"),
    ],
)
async def test_a_span_that_cannot_count_is_refused(
    office: OperationsHarness, body: dict[str, Any], message: str
) -> None:
    with pytest.raises(Invalid, match=message) as caught:
        await office.ask(JOB_ENQUEUE, KEYED | body)
    assert caught.value.field == "unique_for"


async def test_a_duplicate_of_an_ended_job_is_answered_with_its_id(
    office: OperationsHarness,
) -> None:
    first = await office.ask(JOB_ENQUEUE, KEYED | {"unique_for": "1d"})
    await office.run(Succeeded(), "work")
    again = await office.ask(JOB_ENQUEUE, KEYED)
    assert again == {"id": first["id"], "created": False}
    office.clock.at = NOON + DAY + timedelta(seconds=1)
    assert (await office.ask(JOB_ENQUEUE, KEYED))["id"] != first["id"]


async def test_an_explanation_says_who_holds_the_key_until_when(office: OperationsHarness) -> None:
    plain = (await office.ask(JOB_ENQUEUE, KEYED))["id"]
    await office.run(Succeeded(), "work")
    assert "unique key" not in (await office.ask(JOB_WHY, id=plain))["explanation"]
    holder = (await office.ask(JOB_ENQUEUE, KEYED | {"unique_for": "1d"}))["id"]
    await office.run(Succeeded(), "work")
    words = (await office.ask(JOB_WHY, id=holder))["explanation"]
    assert "It holds the unique key 'bill:7' until 2026-03-03" in words
    assert f"Job {holder} holds" in (await office.ask(JOB_WHY, id=plain))["explanation"]


async def test_the_span_of_a_task_counts_for_its_jobs_with_a_key() -> None:
    def defaults(_task: str) -> TaskDefaults:
        return TaskDefaults(fields={"unique_for": DAY})

    office = OperationsHarness(task_defaults=defaults)
    keyed = (await office.ask(JOB_ENQUEUE, KEYED))["id"]
    other = (await office.ask(JOB_ENQUEUE, {"task": "work"}))["id"]
    spans = [await office.store.job(JobId(id)) for id in (keyed, other)]
    assert [None if job is None else job.unique_for for job in spans] == [DAY, None]


@pytest.mark.parametrize("span", ["always", ALWAYS])
def test_python_takes_a_word_or_the_longest_span_for_always(span: Any) -> None:
    assert options(unique="key", unique_for=span).job.unique_for == ALWAYS


@pytest.mark.parametrize("span", [0, "0s", "for ever", SPAN_MAX + timedelta(seconds=1)])
def test_python_refuses_other_spans(span: Any) -> None:
    with pytest.raises(Invalid) as caught:
        options(unique="key", unique_for=span)
    assert caught.value.field == "unique_for"


def test_a_task_passes_its_span_on() -> None:
    beat = Onbeat("memory://")

    @beat.task(unique_for="2d")
    def work() -> None: ...

    job = work.options(unique="key").call().options.job
    assert (job.unique, job.unique_for) == ("key", 2 * DAY)
