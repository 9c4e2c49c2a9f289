from datetime import UTC, datetime, timedelta

import pytest
from msgspec.structs import replace

from onbeat.model.ids import JobId, Token
from onbeat.model.job import Job, JobState
from onbeat.model.limits import INTEGER_MAX
from onbeat.model.outcome import Cancelled, Failed
from onbeat.model.target import HttpTarget
from onbeat.model.worker import RECEIVER
from onbeat.rules.fence import Fence
from onbeat.rules.reports import ReportRight, open_seal, report_url, seal, unreported

ID = JobId("01936f5c-7a00-7000-8000-000000000001")
FENCE = Fence(b"x" * 32)
NOON = datetime(2026, 7, 1, 12, tzinfo=UTC)
RIGHT = ReportRight(Token(3), NOON)


def test_a_sealed_right_is_opened_again() -> None:
    assert open_seal(FENCE, ID, seal(FENCE, ID, RIGHT)) == RIGHT


def test_a_right_lasts_to_the_end_of_its_second() -> None:
    right = ReportRight(Token(3), NOON - timedelta(microseconds=1))
    assert open_seal(FENCE, ID, seal(FENCE, ID, right)) == RIGHT


def test_the_address_is_below_the_base() -> None:
    url = report_url("https://jobs.example.com/onbeat/", FENCE, ID, RIGHT)
    path, _, query = url.partition("?seal=")
    assert path == f"https://jobs.example.com/onbeat/api/reports/{ID}"
    assert open_seal(FENCE, ID, query) == RIGHT


@pytest.mark.parametrize("place", range(len(seal(FENCE, ID, RIGHT))))
def test_a_seal_with_another_character_opens_nothing(place: int) -> None:
    text = seal(FENCE, ID, RIGHT)
    other = "1" if text[place] != "1" else "2"
    assert open_seal(FENCE, ID, text[:place] + other + text[place + 1 :]) is None


def test_a_seal_is_of_one_job_and_one_store() -> None:
    text = seal(FENCE, ID, RIGHT)
    assert open_seal(FENCE, JobId(ID[:-1] + "2"), text) is None
    assert open_seal(Fence(b"y" * 32), ID, text) is None


def test_a_token_of_a_lease_is_no_seal() -> None:
    assert open_seal(FENCE, ID, FENCE.seal(ID, Token(3))) is None


def test_numbers_beyond_all_bounds_are_no_right() -> None:
    text = seal(FENCE, ID, ReportRight(Token(INTEGER_MAX + 1), NOON))
    assert open_seal(FENCE, ID, text) is None
    assert open_seal(FENCE, ID, text.replace(".", "0" * 12 + ".", 1)) is None


def test_an_attempt_without_a_report_has_failed_or_was_cancelled() -> None:
    job = Job(
        id=ID,
        target=HttpTarget("https://api.example.com"),
        created_at=NOON,
        due_at=NOON,
        state=JobState.RUNNING,
        worker=RECEIVER,
        started_at=NOON,
        lease_until=NOON + timedelta(minutes=1),
    )
    assert unreported(job) == Failed(
        "the receiver answered 202, but did not report within 60 s: report earlier, or give the "
        "job a longer timeout"
    )
    assert unreported(replace(job, cancel_reason="by hand")) == Cancelled("by hand")
