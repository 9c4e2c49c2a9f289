"""The scenarios of the first system that this API replaces, as its callers know them."""

from typing import Any

import pytest

from interfaces.rest_client import RestClient
from onbeat.api import build_api
from onbeat.model.outcome import Failed, Succeeded
from onbeat.wire.requests import PAGE_MAX
from operations.harness import NOON, OperationsHarness

BACKUP: dict[str, Any] = {
    "name": "Daily Backup",
    "rrule": "FREQ=DAILY;INTERVAL=1",
    "callback_url": "https://example.com/backup",
    "method": "POST",
    "headers": {"Authorization": "Bearer abc123", "Content-Type": "application/json"},
    "body": '{"task":"backup"}',
}
SHOWN = BACKUP | {"headers": BACKUP["headers"] | {"Authorization": "***"}}
MINUTELY = BACKUP | {"rrule": "FREQ=MINUTELY"}


@pytest.fixture
def office() -> Any:
    return OperationsHarness()


@pytest.fixture
def rest(office: OperationsHarness) -> Any:
    return RestClient(build_api(office.context))


async def created(rest: RestClient, body: Any = BACKUP) -> str:
    answer = await rest.post("/api/schedules", body)
    assert answer.status == 201
    assert set(answer.json) == {"id"}
    return answer.json["id"]


async def test_a_schedule_is_created_and_shown_as_it_was_sent(rest: RestClient) -> None:
    id = await created(rest)
    answer = await rest.get(f"/api/schedules/{id}")
    assert answer.status == 200
    assert {key: answer.json[key] for key in BACKUP} == SHOWN
    assert answer.json["id"] == id
    assert answer.json["anchor"] == "2026-03-02T12:00:00Z"
    assert answer.json["created_at"] == "2026-03-02T12:00:00Z"
    assert answer.json["next_at"] == "2026-03-03T12:00:00Z"


async def test_what_was_left_out_is_left_out_of_the_answer(rest: RestClient) -> None:
    id = await created(rest, {key: BACKUP[key] for key in ("name", "rrule", "callback_url")})
    shown = (await rest.get(f"/api/schedules/{id}")).json
    assert shown["method"] == "GET"
    assert "headers" not in shown
    assert "body" not in shown


async def test_a_client_sets_neither_id_nor_times(rest: RestClient) -> None:
    body = BACKUP | {"id": "64b76c5986b6c9f24f1c0952", "created_at": "1999-01-01T00:00:00Z"}
    id = await created(rest, body)
    assert id != body["id"]
    assert (await rest.get(f"/api/schedules/{id}")).json["created_at"] == "2026-03-02T12:00:00Z"


async def test_the_callback_gets_what_the_schedule_says(
    rest: RestClient, office: OperationsHarness
) -> None:
    await created(rest)
    office.move(days=1)
    (job,) = await office.claim()
    assert job.target.url == BACKUP["callback_url"]
    assert job.target.method == "POST"
    assert job.target.headers == BACKUP["headers"]
    assert job.target.body == BACKUP["body"]
    assert job.due_at.hour == NOON.hour


async def test_an_update_changes_what_is_given(rest: RestClient) -> None:
    id = await created(rest)
    answer = await rest.put(
        f"/api/schedules/{id}", {"rrule": "FREQ=DAILY;INTERVAL=2", "method": "PUT"}
    )
    assert (answer.status, answer.json) == (200, {"message": "Schedule updated successfully."})
    shown = (await rest.get(f"/api/schedules/{id}")).json
    changed = {"rrule": "FREQ=DAILY;INTERVAL=2", "method": "PUT"}
    assert {key: shown[key] for key in BACKUP} == SHOWN | changed
    assert shown["next_at"] == "2026-03-04T12:00:00Z"


async def test_a_deleted_schedule_is_gone_and_calls_nobody(
    rest: RestClient, office: OperationsHarness
) -> None:
    id = await created(rest)
    answer = await rest.delete(f"/api/schedules/{id}")
    assert answer.status == 200
    assert answer.json == {"message": "Schedule and associated events deleted."}
    gone = await rest.get(f"/api/schedules/{id}")
    assert gone.status == 404
    assert gone.json == {"error": {"code": "not_found", "message": "Schedule not found"}}
    office.move(days=2)
    assert await office.claim() == ()


async def test_pending_events_are_queued(rest: RestClient) -> None:
    id = await created(rest)
    answer = (await rest.get(f"/api/schedules/{id}/events/pending?limit=5&page=1")).json
    assert (answer["page"], answer["limit"]) == (1, 5)
    (event,) = answer["events"]
    assert set(event) == {"_id", "schedule_id", "run_time", "status", "created_at"}
    assert event["schedule_id"] == id
    assert event["run_time"] == "2026-03-03T12:00:00Z"
    assert event["status"] == [
        {
            "time": "2026-03-02T12:00:00Z",
            "status": "ready_queue",
            "message": "Event pre-queued for ready queue",
        }
    ]


async def test_a_run_event_is_completed_in_the_history(
    rest: RestClient, office: OperationsHarness
) -> None:
    id = await created(rest)
    office.move(days=1)
    await office.run(Succeeded())
    (event,) = (await rest.get(f"/api/schedules/{id}/events/history")).json["events"]
    assert [step["status"] for step in event["status"]] == [
        "ready_queue",
        "worker_queue",
        "completed",
    ]
    assert event["status"][1]["message"] == "Event dispatched to worker queue"
    assert event["status"][-1]["message"] == "Event successfully processed"


async def test_a_refused_callback_ends_in_error_after_all_tries(
    rest: RestClient, office: OperationsHarness
) -> None:
    id = await created(rest)
    office.move(days=1)
    for _ in range(3):
        await office.run(Failed("connection refused"))
        office.move(minutes=1)
    assert await office.claim() == ()
    (event,) = (await rest.get(f"/api/schedules/{id}/events/history")).json["events"]
    steps = [step["status"] for step in event["status"]]
    assert steps == ["ready_queue", "worker_queue"] * 3 + ["error"]
    assert event["status"][2]["message"] == "Attempt 1 failed: connection refused"
    last = event["status"][-1]["message"]
    assert last == "Callback failed after max retries: connection refused"


async def test_an_answer_that_is_final_says_so(rest: RestClient, office: OperationsHarness) -> None:
    id = await created(rest)
    office.move(days=1)
    await office.run(Failed("404 Not Found", retryable=False))
    (event,) = (await rest.get(f"/api/schedules/{id}/events/history")).json["events"]
    assert event["status"][-1]["message"] == "Callback failed: 404 Not Found"


async def test_history_stays_readable_after_the_schedule_is_gone(
    rest: RestClient, office: OperationsHarness
) -> None:
    id = await created(rest, MINUTELY)
    office.move(minutes=1)
    await office.run(Succeeded())
    await rest.delete(f"/api/schedules/{id}")
    events = (await rest.get(f"/api/schedules/{id}/events/history?limit=100")).json["events"]
    lasts = [event["status"][-1] for event in events]
    assert lasts[-1]["status"] == "completed"
    assert {last["status"] for last in lasts[:-1]} == {"cancelled"}
    assert (await rest.get(f"/api/schedules/{id}/events/pending")).json["events"] == []


async def test_events_come_latest_first_and_by_pages(rest: RestClient) -> None:
    id = await created(rest, MINUTELY)
    first = (await rest.get(f"/api/schedules/{id}/events/pending?limit=4&page=1")).json
    second = (await rest.get(f"/api/schedules/{id}/events/pending?limit=4&page=2")).json
    times = [event["run_time"] for event in first["events"] + second["events"]]
    assert len(times) == 8
    assert times == sorted(times, reverse=True)


@pytest.mark.parametrize(
    ("rrule", "expected"),
    [
        ("DTSTART:20250101T083000Z\nRRULE:FREQ=DAILY", ["2025-01-01T08:30", "2025-01-02T08:30"]),
        (
            "DTSTART:20250101T151500Z\nRRULE:FREQ=WEEKLY;BYDAY=MO,WE,FR",
            ["2025-01-01T15:15", "2025-01-03T15:15", "2025-01-06T15:15"],
        ),
        (
            "DTSTART:20250101T100000Z\nRRULE:FREQ=MONTHLY;BYMONTHDAY=1,15",
            ["2025-01-01T10:00", "2025-01-15T10:00", "2025-02-01T10:00", "2025-02-15T10:00"],
        ),
        (
            "DTSTART:20250101T070000Z\nRRULE:FREQ=YEARLY;BYMONTH=12;BYMONTHDAY=25",
            ["2025-12-25T07:00", "2026-12-25T07:00"],
        ),
        (
            "DTSTART:20250101T020000Z\nRRULE:FREQ=HOURLY;INTERVAL=3",
            ["2025-01-01T02:00", "2025-01-01T05:00", "2025-01-01T08:00", "2025-01-01T11:00"],
        ),
        (
            "DTSTART:20250101T233000Z\nRRULE:FREQ=MONTHLY;BYDAY=MO;BYSETPOS=2",
            ["2025-01-13T23:30", "2025-02-10T23:30", "2025-03-10T23:30"],
        ),
    ],
)
async def test_rules_begin_as_documented(rest: RestClient, rrule: str, expected: list[str]) -> None:
    body = {"rrule": rrule, "after": "2024-12-31T00:00:00Z", "count": len(expected)}
    answer = await rest.post("/api/recurrence/preview", body)
    assert answer.json["occurrences"] == [f"{time}:00Z" for time in expected]


@pytest.mark.parametrize(
    ("rrule", "count", "last"),
    [
        ("DTSTART:20250101T184500Z\nRRULE:FREQ=DAILY;COUNT=5", 5, "2025-01-05T18:45:00Z"),
        (
            "DTSTART:20250101T170000Z\nRRULE:FREQ=DAILY;UNTIL=20250110T170000Z",
            10,
            "2025-01-10T17:00:00Z",
        ),
    ],
)
async def test_rules_end_as_documented(rest: RestClient, rrule: str, count: int, last: str) -> None:
    body = {"rrule": rrule, "after": "2024-12-31T00:00:00Z", "count": 100}
    occurrences = (await rest.post("/api/recurrence/preview", body)).json["occurrences"]
    assert len(occurrences) == count
    assert occurrences[-1] == last


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"name": None, "rrule": "x", "callback_url": "x"}, "Schedule name cannot be empty"),
        ({"name": ""}, "Schedule name cannot be empty"),
        ({"name": "  "}, "Schedule name cannot be empty"),
        ({"rrule": "", "callback_url": "x"}, "RRULE cannot be empty"),
        ({"rrule": None}, "RRULE cannot be empty"),
        ({"rrule": "FREQ=NEVER", "callback_url": "x"}, "Invalid RRULE format"),
        ({"rrule": "FREQ=YEARLY;BYMONTH=2;BYMONTHDAY=30"}, "Invalid RRULE format"),
        ({"callback_url": None}, "Invalid callback URL format"),
        ({"callback_url": ""}, "Invalid callback URL format"),
        ({"callback_url": "example.com"}, "Invalid callback URL format"),
        ({"callback_url": "/x"}, "Invalid callback URL format"),
        ({"callback_url": "ftp://h/x"}, "Invalid callback URL format"),
        ({"callback_url": "javascript:alert(1)"}, "Invalid callback URL format"),
        ({"callback_url": "http://"}, "Invalid callback URL format"),
    ],
)
async def test_the_first_fault_is_told_in_the_known_words(
    rest: RestClient, changes: dict[str, Any], message: str
) -> None:
    body = {key: value for key, value in (BACKUP | changes).items() if value is not None}
    answer = await rest.post("/api/schedules", body)
    assert answer.status == 422
    error = answer.error
    error.pop("detail", None)
    assert error == {"code": "validation_failed", "message": message}


async def test_a_missing_name_is_answered_exactly(rest: RestClient) -> None:
    body = {key: value for key, value in BACKUP.items() if key != "name"}
    answer = await rest.post("/api/schedules", body)
    assert answer.json == {
        "error": {"code": "validation_failed", "message": "Schedule name cannot be empty"}
    }


async def test_a_bad_rule_says_where(rest: RestClient) -> None:
    answer = await rest.post("/api/schedules", BACKUP | {"rrule": "FREQ=NEVER"})
    assert "character 6" in answer.error["detail"]


@pytest.mark.parametrize(
    ("query", "limit", "page"),
    [
        ("limit=0&page=-2", 10, 1),
        ("", 10, 1),
        ("limit=x&page=y", 10, 1),
        ("limit=1.5&page=", 10, 1),
        ("limit=5&page=3", 5, 3),
        ("limit=999999", 1000, 1),
        ("limit=1000&page=2147483648", 1_000, PAGE_MAX),
        ("limit=1001&page=2147483649", 1_000, PAGE_MAX),
        ("limit=99999999999999999999&page=99999999999999999999", 1_000, PAGE_MAX),
        (f"limit={'9' * 5_000}&page={'9' * 5_000}", 1_000, PAGE_MAX),
    ],
)
async def test_nonsense_in_a_page_falls_back_and_a_large_number_is_the_largest(
    rest: RestClient, query: str, limit: int, page: int
) -> None:
    id = await created(rest)
    for path in (f"/api/schedules/{id}/events/pending", "/api/schedules"):
        answer = (await rest.get(f"{path}?{query}")).json
        assert (answer["limit"], answer["page"]) == (limit, page)


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("GET", ""),
        ("PUT", ""),
        ("DELETE", ""),
        ("GET", "/events/pending"),
        ("GET", "/events/history"),
        ("POST", "/pause"),
        ("POST", "/trigger"),
    ],
)
async def test_a_bad_id_is_400(rest: RestClient, method: str, path: str) -> None:
    body = {"name": "x"} if method == "PUT" else None
    answer = await rest.send(method, f"/api/schedules/not-an-id{path}", body)
    assert answer.status == 400
    assert answer.json == {
        "error": {"code": "invalid_request", "message": "Invalid schedule ID format"}
    }


@pytest.mark.parametrize("id", ["64b76c5986b6c9f24f1c0952", "01900000-0000-7000-8000-00000000ffff"])
@pytest.mark.parametrize(
    ("method", "path"), [("GET", ""), ("PUT", ""), ("DELETE", ""), ("POST", "/resume")]
)
async def test_an_unknown_id_is_404(rest: RestClient, id: str, method: str, path: str) -> None:
    body = {"name": "x"} if method == "PUT" else None
    answer = await rest.send(method, f"/api/schedules/{id}{path}", body)
    assert answer.status == 404
    assert answer.error == {"code": "not_found", "message": "Schedule not found"}


async def test_events_of_an_unknown_schedule_are_an_empty_list(rest: RestClient) -> None:
    answer = await rest.get("/api/schedules/64b76c5986b6c9f24f1c0952/events/history")
    assert answer.json == {"events": [], "page": 1, "limit": 10}


@pytest.mark.parametrize("body", [b"{", b"[]", b'"x"', b"null", b'{"name": 3}', b'{"rrule": []}'])
async def test_what_is_no_schedule_at_all_is_400(rest: RestClient, body: bytes) -> None:
    id = await created(rest)
    for method, path in (("POST", "/api/schedules"), ("PUT", f"/api/schedules/{id}")):
        answer = await rest.send(method, path, body, content_type="application/json")
        assert answer.status == 400
        assert answer.error["code"] == "invalid_request"


async def test_an_update_is_checked_as_a_creation_is(rest: RestClient) -> None:
    id = await created(rest)
    for changes, message in (
        ({"name": ""}, "Schedule name cannot be empty"),
        ({"rrule": None}, "RRULE cannot be empty"),
        ({"rrule": "FREQ=NEVER"}, "Invalid RRULE format"),
        ({"callback_url": "nonsense"}, "Invalid callback URL format"),
        ({"callback_url": None}, "Invalid callback URL format"),
    ):
        answer = await rest.put(f"/api/schedules/{id}", changes)
        assert (answer.status, answer.error["message"]) == (422, message)
    shown = (await rest.get(f"/api/schedules/{id}")).json
    assert {key: shown[key] for key in BACKUP} == SHOWN


async def test_an_empty_update_changes_nothing(rest: RestClient) -> None:
    id = await created(rest)
    before = (await rest.get(f"/api/schedules/{id}")).json
    assert (await rest.put(f"/api/schedules/{id}", {})).status == 200
    assert (await rest.get(f"/api/schedules/{id}")).json == before


async def test_an_answer_can_be_sent_back(rest: RestClient, office: OperationsHarness) -> None:
    id = await created(rest)
    before = (await rest.get(f"/api/schedules/{id}")).json
    office.move(hours=1)
    assert (await rest.put(f"/api/schedules/{id}", before)).status == 200
    after = (await rest.get(f"/api/schedules/{id}")).json
    assert after | {"updated_at": before["updated_at"]} == before


async def test_an_answer_can_be_sent_back_with_one_form_of_the_target_changed(
    rest: RestClient,
) -> None:
    id = await created(rest)
    before = (await rest.get(f"/api/schedules/{id}")).json
    await rest.put(f"/api/schedules/{id}", before | {"callback_url": "https://example.com/b"})
    after = (await rest.get(f"/api/schedules/{id}")).json
    assert after["callback_url"] == after["target"]["http"]["url"] == "https://example.com/b"
