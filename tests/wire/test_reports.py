import pytest

from onbeat.model.errors import Invalid, OnbeatError, TooLarge
from onbeat.model.job import Progress
from onbeat.model.limits import RESULT_BYTES_MAX
from onbeat.model.outcome import Failed, Succeeded
from onbeat.wire.decode import decode
from onbeat.wire.reports import ReportBody, read_report_body
from onbeat.wire.worker_results import WorkerReport


def read(text: str) -> object:
    given = read_report_body(decode(ReportBody, text.encode()))
    return given.outcome if isinstance(given, WorkerReport) else given


@pytest.mark.parametrize(
    ("text", "means"),
    [
        ('{"outcome": "succeeded"}', Succeeded(None)),
        ('{"outcome": "failed"}', Failed("the receiver gave no reason")),
        ('{"outcome": "failed", "error": "no disk"}', Failed("no disk")),
        (
            '{"outcome": "failed", "error": "no disk", "retry": false}',
            Failed("no disk", retryable=False),
        ),
        ('{"outcome": "failed", "error": "no disk", "retry": true}', Failed("no disk")),
        ('{"outcome": "running"}', None),
        ('{"outcome": "running", "progress": {"done": 1}}', Progress(1.0)),
        ('{"outcome": "running", "progress": {"done": 1, "total": 3}}', Progress(1.0, 3.0)),
    ],
)
def test_a_report_says_how_the_attempt_is(text: str, means: object) -> None:
    assert read(text) == means


def test_a_result_is_any_json() -> None:
    given = read('{"outcome": "succeeded", "result": {"rows": [1, 2]}}')
    assert isinstance(given, Succeeded)
    assert given.result is not None
    assert bytes(given.result) == b'{"rows":[1,2]}'


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("{}", "outcome"),
        ('{"outcome": "gone"}', "outcome must be one of succeeded, failed, running, not 'gone'"),
        ('{"outcome": "failed", "result": 1}', "result does not go with the outcome failed"),
        ('{"outcome": "succeeded", "error": "x"}', "error does not go with the outcome succeeded"),
        ('{"outcome": "succeeded", "retry": true}', "retry does not go with"),
        ('{"outcome": "failed", "progress": {"done": 1}}', "progress does not go with"),
        ('{"outcome": "running", "progress": {"done": -1}}', "progress.done"),
        ('{"outcome": "running", "progress": {}}', "done"),
        ('{"outcome": "running", "more": 1}', "more"),
    ],
)
def test_a_report_that_says_nothing_is_refused(text: str, says: str) -> None:
    with pytest.raises(Invalid, match=says):
        read(text)


def test_a_result_that_is_too_large_is_refused() -> None:
    with pytest.raises(TooLarge, match=f"result may have at most {RESULT_BYTES_MAX} bytes"):
        read('{"outcome": "succeeded", "result": "%s"}' % ("x" * RESULT_BYTES_MAX))


def test_an_outcome_of_a_wrong_type_is_refused() -> None:
    with pytest.raises(OnbeatError, match="outcome"):
        read('{"outcome": 1}')
