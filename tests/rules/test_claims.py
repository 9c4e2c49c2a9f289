from msgspec.structs import replace

from onbeat.model.ids import Token, WorkerId
from onbeat.model.job import JobState, Progress
from onbeat.rules.claims import as_claimed
from onbeat.testing.build import HOUR, NOW, a_job

WORKER = WorkerId("w")


def test_a_claim_starts_one_more_attempt_under_a_new_token() -> None:
    job = replace(a_job(), token=Token(4), attempt=2, lost=1, progress=Progress(7))
    claimed = as_claimed(job, WORKER, NOW, NOW + HOUR)
    assert claimed == replace(
        job,
        state=JobState.RUNNING,
        worker=WORKER,
        token=Token(5),
        attempt=3,
        started_at=NOW,
        lease_until=NOW + HOUR,
        progress=None,
    )


def test_a_lease_that_is_not_timed_has_no_end() -> None:
    assert as_claimed(a_job(), WORKER, NOW, None).lease_until is None
