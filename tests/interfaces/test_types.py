"""What programs can annotate with: every type that a public method takes or returns has a place."""

import inspect
import json
import re
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import Any, get_args, get_type_hints

import msgspec
import pytest

import onbeat
import onbeat.testing
import onbeat.types
from onbeat import Batch, HttpOptions, Job, Onbeat, Options, RuntimeOptions, Task, every, message
from onbeat.app.backend import Backend
from onbeat.wire.answer import AnswerRecord

AT = "2026-03-28T23:00Z"
PARTS = (
    *("schedules", "jobs", "events", "flows", "queues", "failures", "dead_letters", "alerts"),
    *("pulses", "audit", "keys", "secrets"),
)
"""The members of an `Onbeat` that have methods of their own."""

PUBLIC = {
    id(getattr(module, name))
    for module in (onbeat, onbeat.types, onbeat.testing)
    for name in module.__all__
}


def types_in(hint: Any) -> Iterator[type]:
    """The classes of Onbeat in an annotation; of an answer also those of its fields."""
    for part in get_args(hint):
        yield from types_in(part)
    if not isinstance(hint, type) or not hint.__module__.startswith("onbeat."):
        return
    yield hint
    if hint.__module__.startswith("onbeat.wire."):
        for field in get_type_hints(hint, include_extras=True).values():
            yield from types_in(field)


def methods_of(owner: type) -> Iterator[tuple[str, Any]]:
    for name, value in inspect.getmembers_static(owner):
        function = value.fget if isinstance(value, property) else inspect.unwrap(value)
        if not name.startswith("_") and inspect.isfunction(function):
            yield f"{owner.__name__}.{name}", function


OWNERS = [type(getattr(Onbeat("memory://"), name)) for name in PARTS]


@pytest.mark.parametrize("owner", [Onbeat, Task, Job, Batch, *OWNERS])
def test_every_type_of_a_public_method_can_be_imported(owner: type) -> None:
    hidden = {
        f"{name}: {found.__module__}.{found.__name__}"
        for name, function in methods_of(owner)
        for hint in get_type_hints(function, include_extras=True).values()
        for found in types_in(hint)
        if id(found) not in PUBLIC and found not in INTERNAL
    }
    assert hidden == set()


INTERNAL = {Backend}
"""Its own names may change, as the reference says."""


@pytest.mark.parametrize("name", onbeat.types.__all__)
def test_every_name_is_in_one_place(name: str) -> None:
    assert getattr(onbeat.types, name) is not None
    assert name not in onbeat.__all__
    assert name not in onbeat.testing.__all__


@pytest.fixture
def beat() -> Iterator[Onbeat]:
    beat = Onbeat("memory://")

    @beat.task("add")
    def add(a: int, b: int) -> dict[str, int]:
        return {"sum": a + b}

    with beat.testing(at=AT) as trial:
        (job,) = beat.batch([add.call(1, 2)]).jobs
        beat.schedules.put("hourly", every("1h"), add.call(3, 4), retry=onbeat.Retry(2))
        beat.events.publish("order.placed", {"id": 7}, id="first", source="/shop")
        beat.queues.limit("default", concurrency=3)
        trial.drain()
        assert job.info().to_dict()["result"] == {"sum": 3}
        yield beat


def test_an_answer_becomes_plain_values(beat: Onbeat) -> None:
    (job,) = beat.jobs.list(state="succeeded")
    plain = job.to_dict()
    assert plain["state"] == "succeeded"
    assert plain["target"] == {"task": "add", "args": [1, 2], "kwargs": {}}
    assert datetime.fromisoformat(plain["run_at"]) == job.run_at
    assert "window" not in plain
    assert beat.schedules.get("hourly").to_dict()["retry"]["attempts_max"] == 2
    assert beat.events.show("first").to_dict()["data"] == {"id": 7}
    assert beat.flows.show(str(job.flow)).to_dict()["jobs"][0]["result"] == {"sum": 3}


def test_values_of_any_form_are_plain_and_shown(beat: Onbeat) -> None:
    (job,) = beat.jobs.list(state="succeeded")
    assert (job.result, job.target.args, job.target.kwargs) == ({"sum": 3}, [1, 2], {})
    assert json.dumps({"result": job.result})
    assert beat.events.show("first").data == {"id": 7}
    assert beat.audit.list()[0].request["limits"] == {"concurrency": 3}
    beat.send(message("mail", "q", {"n": 1}).with_options(delay="1h"))
    (sent,) = beat.jobs.list(state="waiting", task="@message:mail")
    assert sent.target.message
    assert sent.target.message.body == {"n": 1}
    for shown in (repr(job), repr(job.target), repr(sent)):
        assert "Raw" not in shown
    assert "result={'sum': 3}" in repr(job)


def test_every_answer_can_become_plain_values(beat: Onbeat) -> None:
    (job,) = beat.jobs.list(state="succeeded")
    made = beat.jobs.bulk("retry")
    answers: list[AnswerRecord] = [
        made,
        beat.jobs.get_bulk(str(made.id)),
        beat.jobs.page(),
        beat.jobs.log(job.id),
        beat.queues.get("default"),
        job,
        beat.jobs.get(job.id),
        beat.jobs.why(job.id),
        *beat.schedules.list(),
        *beat.events.list(),
        beat.events.publish("order.paid"),
        beat.flows.show(str(job.flow)),
        beat.flows.show(str(job.flow)).counts,
        beat.flows.cancel(str(job.flow)),
        *beat.queues.list(),
        *beat.audit.list(),
        beat.stats(),
        beat.workers(),
        beat.timeline(),
        beat.schedules.preview("hourly"),
        *beat.schedules.events("hourly", ended=False),
        beat.keys.create("ci", ["read"], expires="1h"),
        *beat.keys.list(),
    ]
    structs = {found for found in returned() if issubclass(found, msgspec.Struct)}
    assert {found for found in structs if not issubclass(found, AnswerRecord)} == set()
    for answer in answers:
        assert answer.to_dict() == msgspec.json.decode(msgspec.json.encode(answer))


def returned() -> set[type]:
    """The answers of the parts of an `Onbeat`."""
    return {
        found
        for owner in OWNERS
        for _, function in methods_of(owner)
        for found in [get_type_hints(function).get("return")]
        if isinstance(found, type) and found.__module__.startswith("onbeat.wire.")
    }


@pytest.mark.parametrize("record", [Options, RuntimeOptions, HttpOptions])
def test_the_parts_of_options_can_be_imported(record: type) -> None:
    hidden = [
        f"{name}: {found.__name__}"
        for name, hint in get_type_hints(record, include_extras=True).items()
        for found in types_in(hint)
        if id(found) not in PUBLIC
    ]
    assert hidden == []


def test_a_trial_has_the_type_that_the_test_kit_names() -> None:
    with Onbeat("memory://").testing(at=AT) as trial:
        assert type(trial) is onbeat.testing.VirtualRun
    assert get_type_hints(Onbeat.testing)["return"] is onbeat.testing.VirtualRun


def test_the_reference_lists_every_name() -> None:
    page = (Path(__file__).parents[2] / "docs" / "reference" / "python.md").read_text()
    section = page.split("## Types\n")[1].split("\n## ")[0]
    named = set(re.findall(r"`(\w+)`", section))
    everything = {*onbeat.types.__all__, *onbeat.testing.__all__}
    assert everything - named == set()
    assert named - everything - set(onbeat.__all__) == set()
