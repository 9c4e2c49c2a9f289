"""Schedules as a file: what is read, and what of an answer is written."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from msgspec.structs import replace

from onbeat.model.errors import Invalid
from onbeat.model.limits import FILE_SCHEDULES_MAX, LABEL_CHARS_MAX
from onbeat.model.schedule import Overlap
from onbeat.testing.build import a_schedule
from onbeat.wire.schedule_files import FILE_LABEL, file_of, read_schedule_file, written_schedule
from onbeat.wire.schedules import schedule_answer

EVERY: dict[str, Any] = {"every": "1h"}


@pytest.mark.parametrize(
    ("content", "place"),
    [
        ({}, "the file"),
        ([], "the file"),
        ({"schedules": {}, "version": 1}, "the file"),
        ({"schedules": {"a": 3}}, "schedules[...]"),
        ({"schedules": {}, "name": ""}, "name"),
        ({"schedules": {}, "name": "x" * (LABEL_CHARS_MAX + 1)}, "name"),
        ({"schedules": dict.fromkeys(map(str, range(FILE_SCHEDULES_MAX + 1)), EVERY)}, "schedules"),
    ],
)
def test_what_is_no_file_is_refused_with_its_place(content: Any, place: str) -> None:
    with pytest.raises(Invalid) as caught:
        read_schedule_file(content)
    assert caught.value.field == place


def test_a_file_may_have_as_many_schedules_as_the_bound() -> None:
    content = {"schedules": dict.fromkeys(map(str, range(FILE_SCHEDULES_MAX)), EVERY)}
    assert len(read_schedule_file(content).bodies()) == FILE_SCHEDULES_MAX


def test_the_name_of_a_file_marks_its_schedules() -> None:
    plain = read_schedule_file({"schedules": {"a": EVERY}})
    assert plain.bodies() == {"a": EVERY}
    named = read_schedule_file({"name": "billing", "schedules": {"a": {"labels": {"x": "y"}}}})
    assert named.bodies() == {"a": {"labels": {"x": "y", FILE_LABEL: "billing"}}}
    labels = {"labels": {FILE_LABEL: "mine"}}
    assert read_schedule_file({"schedules": {"a": labels}}).bodies() == {"a": labels}
    taken = read_schedule_file({"name": "billing", "schedules": {"a": labels}})
    with pytest.raises(Invalid, match="that of the file's name"):
        taken.bodies()


def test_only_what_differs_from_its_default_is_written() -> None:
    bare = schedule_answer(a_schedule(key="a", name="a"), None).to_dict()
    assert set(written_schedule(bare)) <= {"every", "cron", "rrule", "timezone", "target", "retry"}
    chosen = replace(
        a_schedule(key="a", name="Ledger"),
        overlap=Overlap.SKIP,
        jitter=timedelta(minutes=1),
        starts_at=datetime(2030, 1, 1, tzinfo=UTC),
        labels={"x": "y", FILE_LABEL: "billing"},
    )
    answer = schedule_answer(chosen, None).to_dict()
    written = written_schedule(answer)
    assert written["name"] == "Ledger"
    assert (written["overlap"], written["jitter"]) == ("skip", "1m")
    assert written["labels"] == {"x": "y", FILE_LABEL: "billing"}
    assert written_schedule(answer, "billing")["labels"] == {"x": "y"}
    assert not {"id", "key", "next_at", "created_at", "anchor", "callback_url"} & set(written)
    assert file_of(answer) == "billing"
    assert file_of(bare) is None
