"""Which jobs read events, and what the jobs that they send inherit."""

import pytest

from onbeat.model.event import EventCause
from onbeat.model.limits import EVENT_DEPTH_MAX
from onbeat.rules.event_delivery import inherited_cause, reads_events
from onbeat.rules.job_events import end_event, may_cause
from onbeat.testing.build import NOW, a_job

FAILED = "onbeat.job.failed"


@pytest.mark.parametrize("carried", [True, False])
def test_a_sent_job_reads_no_events_and_makes_none_that_its_sender_would_not(
    carried: bool,
) -> None:
    for cause in (EventCause(FAILED, 2, carried), EventCause("paid", EVENT_DEPTH_MAX, carried)):
        sent = a_job(cause=inherited_cause(cause), state="failed", finished_at=NOW)
        assert sent.cause is not None
        assert (sent.cause.type, sent.cause.depth) == (cause.type, cause.depth)
        assert not reads_events(sent)
        assert not may_cause(sent.cause, FAILED)
        assert end_event(sent, {FAILED}) is None


def test_a_job_without_a_cause_passes_none_on() -> None:
    assert inherited_cause(None) is None
