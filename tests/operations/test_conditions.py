"""Conditions, windows and sensitive payloads through the operations."""

from datetime import timedelta

import msgspec
import pytest

from onbeat.expressions.cel import CelExpressions
from onbeat.model.dead_letter import DeadLetter
from onbeat.model.errors import Conflict, Invalid
from onbeat.model.ids import DeadLetterId
from onbeat.model.job import JobState
from onbeat.model.limits import WINDOWS_MAX
from onbeat.model.outcome import Cancelled, Failed, Snoozed, Succeeded
from onbeat.operations.tables.jobs import JOB_ENQUEUE, JOB_LIST, JOB_RETRY, JOB_SHOW, JOB_WHY
from onbeat.operations.tables.remote_work import JOB_CLAIM
from onbeat.operations.tables.schedules import SCHEDULE_CREATE, SCHEDULE_SHOW, SCHEDULE_UPDATE
from onbeat.telemetry.log_events import LogEvents
from onbeat.testing.build import a_job
from onbeat.wire.dead_letters import dead_letter_answer, dead_letter_detail
from operations.harness import NOON, OperationsHarness

# NOON is a Monday.
NIGHT = {"from": "22:00", "to": "06:00", "timezone": "UTC"}
OFFICE = {"days": "MON-FRI", "from": "09:00", "to": "18:00", "timezone": "Europe/Berlin"}
SECRET = "4711-hush"


def harness(**options):
    return OperationsHarness(expressions=CelExpressions(), **options)


async def enqueue(bench, **fields):
    return (await bench.ask(JOB_ENQUEUE, {"task": "otp", **fields}))["id"]


async def show(bench, id):
    return await bench.ask(JOB_SHOW, id=id)


async def why(bench, id):
    return await bench.ask(JOB_WHY, id=id)


async def add(bench, **fields):
    body = {"name": "n", "cron": "0 3 * * *", "timezone": "UTC", "target": {"task": "otp"}}
    return (await bench.ask(SCHEDULE_CREATE, body | fields))["id"]


@pytest.mark.parametrize(
    ("condition", "field", "message"),
    [
        ({"if": "foo > 1"}, "condition.if", "line 1, column 1: undeclared reference to 'foo'"),
        ({"if": "job."}, "condition.if", "line 1, column 5: Syntax error"),
        ({"if": "1 + 1"}, "condition.if", "must give true or false; it gives int"),
        ({"if": "x" * 2_049}, "condition.if", "2048"),
        ({}, "condition.if", "needs if"),
        ({"if": ""}, "condition.if", "needs if"),
        ({"if": "true", "predicate": "a.b"}, "condition.if", "needs if"),
        ({"if": "true", "else": "5m"}, "condition.else", "give expires_a"),
        ({"if": "true", "else": "0s"}, "condition.else", "from 1s"),
        ({"if": "true", "else": "later"}, "condition.else", "a span such as 90s"),
        ({"if": "true", "ask": {}}, "condition.ask", "needs a kind"),
        ({"if": "true", "ask": {"message": {"to": "a", "queue": "b"}}}, "condition.ask", "answer"),
        ({"if": "true", "ask": {"http": {"url": "nope"}}}, "condition.ask.http.url", "URL"),
        ({"predicate": "a.b", "ask": {"task": "t"}}, "condition.ask", "goes with if"),
        ({"if": "true", "sql": "select 1"}, "condition.sql", "not a known field"),
    ],
)
async def test_a_condition_that_cannot_be(condition, field, message):
    for ask in (enqueue, add):
        with pytest.raises(Invalid, match=message) as caught:
            await ask(harness(), condition=condition)
        assert caught.value.field == field


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("answer.enabled", "line 1, column 1: there is no answer without ask"),
        ("true &&\n  job.color == 'red'", "line 2, column 3: job has no 'color'; it has attempt"),
        ("job['color'] == 'red'", "line 1, column 1: job has no 'color'"),
        ("has(job.color)", "job has no 'color'"),
        ("[1].exists(n, job.color == n)", "job has no 'color'"),
    ],
)
async def test_a_condition_that_reads_what_no_job_has(text, message):
    for ask in (enqueue, add):
        with pytest.raises(Invalid, match=message) as caught:
            await ask(harness(), condition={"if": text})
        assert caught.value.field == "condition.if"


@pytest.mark.parametrize(
    "text",
    [
        "[{'color': 'red'}].exists(job, job.color == 'red')",
        "events.size() == 0 || event.data.amount > 3",
        "job.schedule_id == null || occurrence < now",
        "'a' in after && after.a.result > 3",
        "has(after.a) && job.labels.color == 'red'",
    ],
)
async def test_a_condition_may_ask_first(text):
    await enqueue(harness(), condition={"if": text})


@pytest.mark.parametrize(
    ("fields", "name"),
    [
        ({}, "event"),
        ({"cron": None, "timezone": None, "on": {"type": "paid"}}, "occurrence"),
    ],
)
async def test_a_schedule_whose_jobs_never_have_what_its_condition_reads(fields, name):
    bench = harness()
    id = await add(bench, **fields)
    change = {"condition": {"if": f"{name} != null"}}
    for refused in (
        add(bench, **fields, **change),
        bench.ask(SCHEDULE_UPDATE, change, id=id),
    ):
        with pytest.raises(Invalid, match=f"line 1, column 1: such jobs have no {name}"):
            await refused


async def test_a_schedule_that_fires_on_events_from_now_on_keeps_a_fitting_condition():
    bench = harness()
    id = await add(bench, condition={"if": "occurrence < now"})
    change = {"cron": None, "timezone": None, "on": {"type": "paid"}}
    with pytest.raises(Invalid, match="such jobs have no occurrence"):
        await bench.ask(SCHEDULE_UPDATE, change, id=id)
    await bench.ask(SCHEDULE_UPDATE, change | {"condition": {"if": "event.data.amount > 0"}}, id=id)


async def test_a_job_that_comes_after_none_of_the_name():
    first = {"name": "first", "task": "a"}
    text = {"if": "after.frist.result > 0"}
    with pytest.raises(Invalid, match="the job comes after none of the name 'frist'") as caught:
        await harness().ask(
            JOB_ENQUEUE,
            {"jobs": [first, {"task": "b", "after": ["first"], "condition": text}]},
        )
    assert caught.value.field == "jobs[1].condition.if"
    bench = harness()
    stored = await enqueue(bench, name="frist")
    await enqueue(bench, after=[stored], condition=text)


async def test_the_place_in_a_list_of_jobs():
    jobs = [{"task": "a"}, {"task": "b", "condition": {"if": "foo"}}]
    with pytest.raises(Invalid) as caught:
        await harness().ask(JOB_ENQUEUE, {"jobs": jobs})
    assert caught.value.field == "jobs[1].condition.if"


async def test_without_the_extra():
    with pytest.raises(Invalid, match=r"pip install 'onbeat\[cel\]'") as caught:
        await enqueue(OperationsHarness(), condition={"if": "true"})
    assert caught.value.field == "condition.if"


async def test_a_condition_is_shown_as_it_was_given():
    asked = {"http": {"url": "https://flags.example.com/?token=hush", "method": "GET"}}
    condition = {"ask": asked, "if": "answer.body.enabled", "else": "5m"}
    bench = harness()
    id = await enqueue(bench, condition=condition, expires_at="2026-03-02T13:00:00Z")
    shown = (await show(bench, id))["condition"]
    assert shown["ask"]["http"]["url"] == "https://flags.example.com/?token=***"
    assert (shown["if"], shown["else"]) == (condition["if"], "5m")
    assert "condition" not in await show(bench, await enqueue(bench))


async def test_why_tells_the_last_verdict():
    bench = harness()
    id = await enqueue(
        bench, condition={"if": "job.priority > 3", "else": "5m"}, expires_at="2026-03-02T13:00:00Z"
    )
    reason = "condition is false: job.priority > 3"
    await bench.run(Snoozed(timedelta(minutes=5), reason, unstarted=True), "otp")
    answer = await why(bench, id)
    assert answer["code"] == "condition"
    assert "condition is false: job.priority > 3; it is asked again at" in answer["explanation"]
    assert (await show(bench, id))["reason"] == reason


async def test_a_schedule_passes_its_condition_on_and_takes_it_back():
    bench = harness()
    id = await add(bench, condition={"if": "job.queue == 'a'"}, window=NIGHT, sensitive=True)
    shown = await bench.ask(SCHEDULE_SHOW, id=id)
    assert shown["condition"] == {"if": "job.queue == 'a'", "else": "cancel"}
    assert shown["window"] == [{"days": "MON-SUN", **NIGHT}]
    job = (await bench.ask(JOB_LIST, schedule_id=id))["jobs"][0]
    assert (job["condition"], job["window"]) == (shown["condition"], shown["window"])
    assert job["sensitive"] is True
    await bench.ask(SCHEDULE_UPDATE, {"condition": None, "window": None, "sensitive": None}, id=id)
    after = await bench.ask(SCHEDULE_SHOW, id=id)
    assert not {"condition", "window", "sensitive"} & after.keys()


@pytest.mark.parametrize(
    ("window", "field", "message"),
    [
        (OFFICE | {"timezone": "Mars/Base"}, "window.timezone", "unknown time zone"),
        (OFFICE | {"timezone": "Factory"}, "window.timezone", "is no place; use an IANA name"),
        (OFFICE | {"days": "MON-FUN"}, "window.days", "such as MON-FRI"),
        (OFFICE | {"from": "9"}, "window.from", "a time of day such as 09:00"),
        (OFFICE | {"from": "24:00"}, "window.from", "before 24:00"),
        (OFFICE | {"to": "24:01"}, "window.to", "up to 24:00"),
        ([NIGHT, OFFICE | {"to": "x"}], "window[1].to", "a time of day"),
        ({"from": "09:00", "to": "10:00"}, "window.timezone", "required"),
        ([NIGHT] * (WINDOWS_MAX + 1), "window", "at most 20"),
    ],
)
async def test_a_window_that_cannot_be(window, field, message):
    with pytest.raises(Invalid, match=message) as caught:
        await enqueue(harness(), window=window)
    assert caught.value.field == field


async def test_a_due_time_outside_moves_to_the_opening():
    bench = harness()
    id = await enqueue(bench, window=[NIGHT] * WINDOWS_MAX, expires_at="2026-03-02T13:00:00Z")
    shown = await show(bench, id)
    assert (shown["run_at"], shown["expires_at"]) == (
        "2026-03-02T22:00:00Z",
        "2026-03-02T13:00:00Z",
    )
    answer = await why(bench, id)
    assert "Its window opens at 2026-03-02T22:00:00Z." in answer["explanation"]
    inside = await enqueue(bench, window=OFFICE)
    assert (await show(bench, inside))["run_at"] == "2026-03-02T12:00:00Z"


async def test_a_schedule_starts_its_jobs_when_the_window_opens():
    bench = harness()
    id = await add(bench, window=OFFICE, expires_after="1h")
    job = (await bench.ask(JOB_LIST, schedule_id=id))["jobs"][0]
    assert job["occurrence"] == "2026-03-03T03:00:00Z"
    assert (job["run_at"], job["expires_at"]) == ("2026-03-03T08:00:00Z", "2026-03-03T04:00:00Z")


async def test_a_retry_waits_for_the_window():
    bench = harness()
    id = await enqueue(bench, window=OFFICE, retry={"delay": "8h", "jitter": False})
    await bench.run(Failed("no"), "otp")
    assert (await show(bench, id))["run_at"] == "2026-03-03T08:00:00Z"


TARGETS = [
    {"task": "otp", "args": [SECRET], "kwargs": {"code": SECRET}},
    {
        "http": {
            "url": f"https://example.com/a?n={SECRET}",
            "method": "POST",
            "headers": {"X-Code": SECRET},
            "body": SECRET,
        }
    },
]


@pytest.mark.parametrize("target", TARGETS)
async def test_a_sensitive_payload_is_never_shown(target):
    bench = harness()
    id = (await bench.ask(JOB_ENQUEUE, {"target": target, "sensitive": True}))["id"]
    lane = "otp" if "task" in target else "@http"
    await bench.run(Failed(f"boom {SECRET}"), lane)
    bench.move(hours=1)
    await bench.run(Succeeded(msgspec.Raw(msgspec.json.encode(SECRET))), lane)
    listed = await bench.ask(JOB_LIST)
    shown = await show(bench, id)
    assert (shown["sensitive"], shown["result"]) == (True, "…")
    assert [attempt.get("error") for attempt in shown["attempts"]] == ["…", None]
    for answer in (listed, shown, await why(bench, id)):
        assert SECRET not in msgspec.json.encode(answer).decode()


async def test_a_sensitive_job_that_ended_cannot_be_retried():
    bench = harness()
    id = await enqueue(bench, sensitive=True, retry={"attempts_max": 1})
    await bench.run(Failed("no"), "otp")
    assert (await show(bench, id))["state"] == JobState.FAILED
    with pytest.raises(Conflict, match="is sensitive: its payload was not kept"):
        await bench.ask(JOB_RETRY, id=id)


async def test_a_sensitive_schedule_keeps_its_target_when_its_answer_is_sent_back():
    bench = harness()
    id = await add(bench, target=TARGETS[1], sensitive=True)
    answer = await bench.ask(SCHEDULE_SHOW, id=id)
    assert SECRET not in msgspec.json.encode(answer).decode()
    await bench.ask(SCHEDULE_UPDATE, answer | {"name": "other"}, id=id)
    stored = await bench.store.schedule(id)
    assert (stored.name, stored.target.body) == ("other", SECRET)


def test_noon_is_a_monday():
    assert NOON.weekday() == 0


async def test_a_remote_worker_gets_only_what_may_start():
    async def check(job, _events):
        return Cancelled("no") if job.labels else None

    bench = harness(check_start=check)
    held = await enqueue(bench, labels={"a": "b"})
    free = await enqueue(bench)
    answer = await bench.ask(JOB_CLAIM, {"worker": "w", "tasks": ["otp"], "limit": 5})
    assert [job["id"] for job in answer["jobs"]] == [free]
    assert (await show(bench, held))["state"] == JobState.CANCELLED


@pytest.mark.parametrize("mark", ['"sensitive":true', '"sensitive" : true'])
def test_a_dead_letter_that_was_to_be_sensitive_is_not_shown(mark):
    body = f'{{"params":{{"code":"{SECRET}"}},"onbeat":{{{mark}}}}}'.encode()
    letter = DeadLetter(
        id=DeadLetterId("1"), at=NOON, source="onbeat.submit", reason="no", headers={}, body=body
    )
    assert (dead_letter_answer(letter).preview, dead_letter_detail(letter).body) == ("…", "…")
    shown = msgspec.structs.replace(letter, body=body.replace(b"true", b"false"))
    assert SECRET in dead_letter_detail(shown).body


def test_the_error_of_a_sensitive_job_is_not_logged(caplog):
    caplog.set_level("DEBUG", "onbeat.jobs")
    job = a_job(sensitive=True, started_at=NOON)
    LogEvents().ended(job, Failed(f"boom {SECRET}"), 0.0)
    assert "job.failed" in caplog.text
    assert SECRET not in caplog.text


async def test_what_a_condition_of_a_sensitive_schedule_asks_stays():
    bench = harness()
    task = {"task": "tick", "args": [1], "kwargs": {"a": 1}}
    id = await add(bench, condition={"ask": task, "if": "answer.body > 0"}, sensitive=True)
    await bench.ask(SCHEDULE_UPDATE, await bench.ask(SCHEDULE_SHOW, id=id), id=id)
    changed = {"ask": {"task": "other", "args": ["…"]}, "if": "answer.body > 0"}
    with pytest.raises(Invalid, match="stands for what a sensitive schedule") as refused:
        await bench.ask(SCHEDULE_UPDATE, {"condition": changed}, id=id)
    assert refused.value.field == "condition.ask"
    await bench.ask(SCHEDULE_UPDATE, {"sensitive": False}, id=id)
    ask = (await bench.ask(SCHEDULE_SHOW, id=id))["condition"]["ask"]
    assert (ask["args"], ask["kwargs"]) == ([1], {"a": 1})
