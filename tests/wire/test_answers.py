"""What programs can do with an answer: read its values, print it, turn it into plain JSON."""

from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import pytest
from msgspec import UNSET

from onbeat.model.errors import Invalid
from onbeat.wire.access import AuditAnswer
from onbeat.wire.answer import AnswerRecord, plain_value
from onbeat.wire.event_waits import read_awaited_key, read_awaited_type, read_within
from onbeat.wire.events import EventInfo
from onbeat.wire.job_logs import LogLineAnswer
from onbeat.wire.targets import TargetAnswer

AT = "2030-01-01T12:00:00Z"
VALUE: dict[str, Any] = {"id": 7, "tags": ["a", None], "left": {}}


def line(fields: Any) -> dict[str, Any]:
    given = {"number": 1, "attempt": 1, "at": AT, "level": "INFO", "logger": "a", "text": "b"}
    return {**given, "fields": fields}


def audit(request: Any) -> dict[str, Any]:
    given = {"id": "1", "at": AT, "actor": "ops", "action": "job.cancel", "object": "job/1"}
    return {**given, "request": request, "outcome": "done"}


def event(data: Any) -> dict[str, Any]:
    given = {"id": "1", "source": "shop", "type": "paid", "time": AT, "data": data}
    return {**given, "received_at": AT, "routed_at": None, "jobs": [], "verdicts": []}


@pytest.mark.parametrize(
    ("answer_type", "body", "name"),
    [
        (LogLineAnswer, line(VALUE), "fields"),
        (AuditAnswer, audit(VALUE), "request"),
        (EventInfo, event(VALUE), "data"),
        (TargetAnswer, {"task": "bill", "args": [], "kwargs": VALUE}, "kwargs"),
    ],
)
def test_a_value_of_any_form_is_read_as_plain_json_and_written_as_it_came(
    answer_type: type[AnswerRecord], body: dict[str, Any], name: str
) -> None:
    answer = msgspec.json.decode(msgspec.json.encode(body), type=answer_type)
    assert getattr(answer, name) == VALUE
    assert answer.to_dict() == body
    shown = repr(answer)
    assert shown.startswith(f"{answer_type.__name__}(")
    assert f"{name}={VALUE!r}" in shown


def test_what_is_read_may_be_changed_without_a_change_of_the_answer() -> None:
    answer = msgspec.json.decode(msgspec.json.encode(event(VALUE)), type=EventInfo)
    answer.data["tags"].append("more")
    assert answer.data == VALUE


def test_what_is_not_set_stays_so() -> None:
    answer = TargetAnswer(command=("true",))
    assert plain_value(UNSET) is UNSET
    assert (answer.args, answer.kwargs) == (UNSET, UNSET)
    assert answer.to_dict() == {"command": ["true"]}


def test_pydantic_takes_an_answer_as_a_field_and_writes_it_as_json() -> None:
    pydantic = pytest.importorskip("pydantic")
    adapter = pydantic.TypeAdapter(TargetAnswer)
    answer = TargetAnswer(command=("true",))
    assert adapter.validate_python(answer) is answer
    assert adapter.dump_python(answer) == {"command": ["true"]}
    assert adapter.json_schema() == {"title": "TargetAnswer", "type": "object"}
    with pytest.raises(pydantic.ValidationError):
        adapter.validate_python({"command": ["true"]})


def test_the_type_of_an_awaited_event_may_end_in_a_star() -> None:
    assert [read_awaited_type(type) for type in ("shop.paid", "shop.*")] == ["shop.paid", "shop.*"]


def test_own_events_are_not_awaited() -> None:
    with pytest.raises(Invalid, match="waits for its end") as caught:
        read_awaited_type("onbeat.job.failed")
    assert caught.value.field == "type"


def test_the_key_of_an_awaited_event_is_bounded() -> None:
    assert read_awaited_key("order-7") == "order-7"
    with pytest.raises(Invalid) as caught:
        read_awaited_key("x" * 100_000)
    assert caught.value.field == "by"


@pytest.mark.parametrize("span", ["90s", 90, 90.0, timedelta(seconds=90)])
def test_the_time_that_an_event_is_waited_for_has_the_forms_of_all_spans(span: Any) -> None:
    assert read_within(span) == timedelta(seconds=90)
    with pytest.raises(Invalid) as caught:
        read_within(0)
    assert caught.value.field == "within"


def test_instants_of_an_answer_are_instants() -> None:
    answer = msgspec.json.decode(msgspec.json.encode(line({})), type=LogLineAnswer)
    assert answer.at == datetime(2030, 1, 1, 12, tzinfo=UTC)
