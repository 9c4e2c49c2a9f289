"""An error about a choice lists the choices of that very field."""

from typing import Literal

import msgspec
import pytest

from onbeat.model.errors import Invalid
from onbeat.operations.invoke import request_from
from onbeat.operations.tables.alerts import ALERT_LIST
from onbeat.operations.tables.failures import FAILURE_LIST, FAILURE_SHOW
from onbeat.operations.tables.jobs import JOB_BULK, JOB_ENQUEUE, JOB_LIST
from onbeat.operations.tables.operation import Operation
from onbeat.operations.tables.pulses import PULSE_SHOW
from onbeat.operations.tables.schedules import SCHEDULE_CREATE, SCHEDULE_OCCURRENCES
from onbeat.wire.choices import CHOICES_SHOWN_MAX, choices_at

QUERIES = [
    (PULSE_SHOW, {"span": "6h"}, "span must be one of hour, day, week, not '6h'"),
    (ALERT_LIST, {"state": "x"}, "state must be one of open, ended, not 'x'"),
    (JOB_LIST, {"state": "x"}, "state must be one of waiting, running, succeeded, failed, canc"),
    (FAILURE_LIST, {"order": "x"}, "order must be one of last, count, first, not 'x'"),
    (SCHEDULE_OCCURRENCES, {"id": "x", "disposition": "x"}, "disposition must be one of planned, "),
    (FAILURE_SHOW, {"fault": "x"}, r"fault must match \^\[0-9\]"),
]
BODIES = [
    (JOB_BULK, {"do": "zap", "where": {}}, "do must be one of retry, cancel, reschedule, not 'z"),
    (JOB_ENQUEUE, {"after": [{"job": "a", "on": "n"}]}, r"after\[0\].on must be one of success, "),
    (JOB_ENQUEUE, {"jobs": [{"retry": {"backoff": "n"}}]}, r"jobs\[0\].retry.backoff must be one "),
    (SCHEDULE_CREATE, {"gather": {"keep": "zz"}}, "gather.keep must be one of all, first, last, "),
]
Side = Literal["left", "right"]
Long = Literal["a", "b", "c", "d", "e", "f", "g", "h", "i", "j", "k", "l", "m"]


class Chosen(msgspec.Struct):
    pair: tuple[int, Side]
    by_name: dict[str, Literal["on", "off"]]
    letter: Long
    text: str


@pytest.mark.parametrize(("operation", "named", "says"), QUERIES)
def test_a_parameter_names_its_choices(
    operation: Operation, named: dict[str, str], says: str
) -> None:
    with pytest.raises(Invalid, match=says):
        request_from(operation, named, None)


@pytest.mark.parametrize(("operation", "body", "says"), BODIES)
def test_a_field_names_its_choices(operation: Operation, body: object, says: str) -> None:
    with pytest.raises(Invalid, match=says):
        request_from(operation, {}, msgspec.json.encode(body))


def test_the_choices_are_found_by_the_path() -> None:
    assert choices_at(Chosen, "$.pair[1]") == ("left", "right")
    assert set(choices_at(Chosen, "$.by_name[...]")) == {"on", "off"}
    assert choices_at(list[Chosen], "$[3].pair[1]") == ("left", "right")
    for path in ("$.text", "$.text.more", "$.none", "$"):
        assert choices_at(Chosen, path) == ()


def test_a_long_list_is_not_shown() -> None:
    assert choices_at(Chosen, "$.letter") == ()
    assert CHOICES_SHOWN_MAX == 12
