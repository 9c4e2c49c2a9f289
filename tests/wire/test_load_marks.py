"""The marks of the jobs of a load."""

from datetime import timedelta

import msgspec
import pytest

from onbeat.testing.build import a_job
from onbeat.wire.bulks import read_label_filter
from onbeat.wire.jobs import job_answer
from onbeat.wire.load_marks import RUN, SENT_AFTER, load_body, load_filter, sent_after
from onbeat.wire.targets import TargetBody


def test_a_job_has_its_run_and_its_time() -> None:
    body = load_body("r", 1.25, "load", TargetBody(task="t"))
    assert msgspec.to_builtins(body) == {
        "target": {"task": "t"},
        "queue": "load",
        "labels": {"load": "r", "load.after": "1250000"},
    }
    job = job_answer(a_job(labels=body.labels))
    assert sent_after(job) == timedelta(seconds=1.25)


@pytest.mark.parametrize("text", ["", "-1", "1.5", "soon", "٣", "9" * 14])
def test_a_mark_that_is_no_time_counts_as_the_start(text: str) -> None:
    job = job_answer(a_job(labels={RUN: "r", SENT_AFTER: text}))
    assert sent_after(job) == timedelta(0)


def test_a_run_is_found_by_its_mark() -> None:
    assert read_label_filter(load_filter("r"), "label") == ("load:r",)
