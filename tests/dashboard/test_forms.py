"""Forms as a browser without script sends them, and as another site would."""

import re
from html.parser import HTMLParser
from typing import Any
from urllib.parse import urlencode

import pytest

from dashboard.office import FORM, READ, DashboardOffice, proof
from dashboard.test_payloads import PAYLOADS, Structure
from interfaces.rest_client import Response, RestClient
from onbeat.api import ApiOptions, build_api
from onbeat.api.keyring import FRESH_SECONDS
from onbeat.api.security import FORM_ENDINGS
from onbeat.dashboard.forms import FIELDS_MAX, FORM_BYTES_MAX, OTHER_SESSION
from onbeat.dashboard.pages.edit import CHANGED_MEANWHILE
from onbeat.dashboard.routes import FORMS, dashboard_routes
from onbeat.model.ids import ScheduleId

NIGHTLY = {
    "name": "Nightly ledger",
    "cron": "30 2 * * *",
    "timezone": "Europe/Berlin",
    "target": {"task": "ledger", "args": [7]},
}
SECRET = "whsec_" + "QUFB" * 8
HOOK = {
    "http": {
        "url": "https://api.example.com/hook",
        "headers": {"Authorization": "Bearer 1234", "X-From": "onbeat"},
        "secret": SECRET,
        "body": "{}",
    }
}


class FormFields(HTMLParser):
    """The fields of a page's forms as a browser would send them."""

    def __init__(self) -> None:
        super().__init__()
        self.fields: dict[str, str] = {}
        self.select = self.area = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        name = given.get("name") or ""
        if tag == "input" and name not in {"", "q"}:
            self.fields[name] = given.get("value") or ""
        elif tag == "select":
            self.select = name
        elif tag == "option" and ("selected" in given or self.select not in self.fields):
            self.fields[self.select] = given.get("value") or ""
        elif tag == "textarea":
            self.area = name
            self.fields[name] = ""

    def handle_data(self, data: str) -> None:
        if self.area:
            self.fields[self.area] += data.removeprefix("\n")

    def handle_endtag(self, tag: str) -> None:
        if tag == "textarea":
            self.area = ""


@pytest.fixture
def office() -> DashboardOffice:
    return DashboardOffice()


def fields_of(page: Response) -> dict[str, str]:
    parser = FormFields()
    parser.feed(page.body.decode())
    return parser.fields


def text_of(page: Response) -> str:
    structure = Structure()
    structure.feed(page.body.decode())
    return re.sub(r"\s+", " ", structure.text)


async def sent(client: RestClient, path: str, fields: dict[str, str], **headers: str) -> Response:
    """As a page of ours would: with the proof of the session."""
    given = {"proof": proof(client), **fields} if "cookie" in client.headers else fields
    headers = {"content_type": FORM, **headers}
    return await client.send("POST", path, urlencode(given).encode(), **headers)


async def filled(client: RestClient, path: str, **changes: str) -> Response:
    """The form at `path` as it is, with some fields typed over, and saved."""
    fields = fields_of(await client.get(path))
    return await sent(client, path, {**fields, "intent": "save", **changes})


async def a_schedule(office: DashboardOffice, **fields: Any) -> str:
    answer = await api(office, "POST", "/api/schedules", {**NIGHTLY, **fields})
    return answer["id"]


async def api(office: DashboardOffice, method: str, path: str, body: Any = None) -> Any:
    admin = office.client(authorization="Bearer admin-key-of-the-test-0001")
    answer = await (admin.get(path) if method == "GET" else admin.post(path, body))
    assert answer.status < 300, answer.body
    return answer.json


# What forms do


async def test_a_schedule_is_made_without_script(office: DashboardOffice) -> None:
    browser = await office.session()
    answer = await filled(
        browser,
        "/schedules/new",
        name="Digest",
        kind="cron",
        rule="0 9 * * 1-5",
        timezone="Asia/Kolkata",
        task="digest",
        kwargs='{"to": "all"}',
        priority="5",
        attempts_max="7",
        labels='{"team": "mail"}',
        more='{"sensitive": true}',
    )
    assert answer.status == 303, answer.body
    made = await api(office, "GET", "/api" + answer.headers["location"])
    assert (made["name"], made["cron"], made["timezone"]) == (
        "Digest",
        "0 9 * * 1-5",
        "Asia/Kolkata",
    )
    assert (made["target"]["task"], made["sensitive"]) == ("digest", True)
    stored = await office.harness.store.schedule(made["id"])
    assert stored is not None
    assert bytes(stored.target.kwargs) == b'{"to":"all"}'
    assert (made["priority"], made["retry"]["attempts_max"]) == (5, 7)
    assert made["labels"] == {"team": "mail"}


@pytest.mark.parametrize(
    ("kind", "rule", "field"),
    [
        ("rrule", "FREQ=DAILY;COUNT=3", "rrule"),
        ("every", "15m", "every"),
        ("at", "2027-01-31T09:00:00Z", "at"),
        ("on", '{"type": "order.*"}', "on"),
        ("on", '[{"type": "a"}, {"type": "b"}]', "on"),
    ],
)
async def test_every_kind_of_rule_can_be_typed(
    office: DashboardOffice, kind: str, rule: str, field: str
) -> None:
    browser = await office.session()
    answer = await filled(browser, "/schedules/new", name="x", task="t", kind=kind, rule=rule)
    assert answer.status == 303, answer.body
    made = await api(office, "GET", "/api" + answer.headers["location"])
    assert field in made
    again = await browser.get(answer.headers["location"] + "/edit")
    assert fields_of(again)["kind"] == kind


async def test_a_form_that_is_sent_twice_makes_one(office: DashboardOffice) -> None:
    browser = await office.session()
    fields = fields_of(await browser.get("/schedules/new"))
    typed = {**fields, "intent": "save", "name": "x", "rule": "0 9 * * *", "task": "t"}
    first, second = [await sent(browser, "/schedules/new", typed) for _ in range(2)]
    assert (first.status, second.status) == (303, 303)
    assert first.headers["location"] == second.headers["location"]


@pytest.mark.parametrize(
    ("typed", "field"),
    [
        ({"name": " "}, "name"),
        ({"rule": "0 9 * *"}, "rule"),
        ({"rule": ""}, "rule"),
        ({"kind": "rrule", "rule": "FREQ=NEVER"}, "rule"),
        ({"kind": "moon"}, "kind"),
        ({"timezone": "Mars/One"}, "timezone"),
        ({"starts_at": "tomorrow"}, "starts_at"),
        ({"ends_at": "2020-01-01T00:00:00Z"}, "rule"),
        ({"target_kind": "http", "url": "ftp://x"}, "url"),
        ({"target_kind": "http", "url": "https://x.example", "headers": "[]"}, "headers"),
        ({"target_kind": "json", "target": "{"}, "target"),
        ({"target_kind": "json", "target": '{"message": {"to": "x", "queue": "y"}}'}, "target"),
        ({"target_kind": "moon"}, "target_kind"),
        ({"task": ""}, "task"),
        ({"args": '{"a": 1}'}, "args"),
        ({"kwargs": '{"a": 1, "a": 2}'}, "kwargs"),
        ({"priority": "high"}, "priority"),
        ({"priority": "99999"}, "priority"),
        ({"attempts_max": "0"}, "attempts_max"),
        ({"labels": '{"a": 1}'}, "labels"),
        ({"grace": "soon"}, "grace"),
        ({"queue": "a/b"}, "queue"),
        ({"more": '{"name": "y"}'}, "more"),
        ({"more": '{"nonsense": 1}'}, "more"),
    ],
)
async def test_a_fault_stands_under_its_field_and_nothing_typed_is_lost(
    office: DashboardOffice, typed: dict[str, str], field: str
) -> None:
    browser = await office.session()
    whole = {"name": "x", "kind": "cron", "rule": "0 9 * * *", "task": "t", "overlap": "skip"}
    answer = await filled(browser, "/schedules/new", **{**whole, **typed})
    page = answer.body.decode()
    assert answer.status in {400, 422}, page
    fault = re.search(rf'id="fault-{field}"[^>]*>([^<]+)', page)
    assert fault is not None, re.findall(r'class="fault[^>]*>[^<]+', page)
    marked = re.findall(r'name="([^"]*)" aria-describedby="[^"]*" aria-invalid="true"', page)
    assert field in marked
    assert page.count(" autofocus") == 1
    # A select has none but its own choices.
    kept = {**whole, **typed}.items() - {("kind", "moon"), ("target_kind", "moon")}
    assert kept <= fields_of(answer).items()
    assert (await api(office, "GET", "/api/schedules"))["total"] == 0


async def test_a_preview_shows_the_next_times_and_makes_nothing(office: DashboardOffice) -> None:
    browser = await office.session()
    typed = {"kind": "cron", "rule": "30 2 * * *", "timezone": "Europe/Berlin"}
    bounds = {"starts_at": "2026-03-27T00:00:00Z", "ends_at": "2026-03-30T00:00:00Z"}
    answer = await sent(browser, "/schedules/new", {**typed, **bounds, "intent": "preview"})
    assert answer.status == 200
    text = text_of(answer)
    assert "At 02:30 every day (Europe/Berlin)" in text
    assert "Sun 29 Mar 2026 03:00:00 CEST" in text
    assert "Sat 28 Mar 2026 02:30:00 CET" in text
    assert "30 Mar 2026" not in text
    assert (await api(office, "GET", "/api/schedules"))["total"] == 0


async def test_edit_tells_what_it_changes_before_saving(office: DashboardOffice) -> None:
    id = await a_schedule(office)
    browser = await office.session()
    path = f"/schedules/{id}/edit"
    typed = {**fields_of(await browser.get(path)), "rule": "0 4 * * *", "queue": "slow"}
    answer = await sent(browser, path, {**typed, "intent": "preview"})
    text = text_of(answer)
    assert "This edit cancels 1 waiting job and plans 1. The next run moves from" in text
    assert "queue default slow" in text.replace("queuedefaultslow", "queue default slow")
    assert (await api(office, "GET", f"/api/schedules/{id}"))["cron"] == "30 2 * * *"
    answer = await sent(browser, path, {**typed, "intent": "save"})
    assert answer.status == 303, answer.body
    after = await api(office, "GET", f"/api/schedules/{id}")
    assert (after["cron"], after["queue"], after["timezone"]) == (
        "0 4 * * *",
        "slow",
        "Europe/Berlin",
    )


async def test_an_edit_sends_only_what_was_typed(office: DashboardOffice) -> None:
    id = await a_schedule(office, target=HOOK, grace="5m", window=None)
    before = await api(office, "GET", f"/api/schedules/{id}")
    browser = await office.session()
    same = await filled(browser, f"/schedules/{id}/edit")
    assert same.status == 303, same.body
    assert await api(office, "GET", f"/api/schedules/{id}") == before
    records = (await api(office, "GET", "/api/audit?action=schedule.update"))["records"]
    assert records == []
    answer = await filled(browser, f"/schedules/{id}/edit", method="POST", grace="")
    assert answer.status == 303, answer.body
    after = await api(office, "GET", f"/api/schedules/{id}")
    assert "grace" not in after
    assert after["target"]["http"]["secret_set"] is True
    stored = await office.harness.store.schedule(ScheduleId(id))
    assert stored is not None
    assert stored.target.headers["Authorization"] == "Bearer 1234"
    assert stored.target.secret == SECRET


async def test_an_edit_of_what_others_changed_meanwhile_is_shown_first(
    office: DashboardOffice,
) -> None:
    id = await a_schedule(office)
    browser = await office.session()
    path = f"/schedules/{id}/edit"
    typed = {**fields_of(await browser.get(path)), "rule": "0 4 * * *", "intent": "save"}
    office.harness.move(seconds=1)
    await office.client(authorization="Bearer admin-key-of-the-test-0001").send(
        "PUT", f"/api/schedules/{id}", b'{"queue": "slow"}', content_type="application/json"
    )
    answer = await sent(browser, path, typed)
    assert answer.status == 409
    assert CHANGED_MEANWHILE in text_of(answer)
    assert "queue" in text_of(answer)
    again = {**fields_of(answer), "queue": "slow", "intent": "save"}
    assert again["rule"] == "0 4 * * *"
    assert (await sent(browser, path, again)).status == 303


async def test_backfill_is_counted_first(office: DashboardOffice) -> None:
    id = await a_schedule(office)
    browser = await office.session()
    path = f"/schedules/{id}/backfill"
    assert "Run " not in text_of(await browser.get(path)).partition("Backfill")[2]
    typed = {"from": "2026-02-01T00:00:00Z", "to": "2026-02-11T00:00:00Z"}
    counted = await sent(browser, path, {**typed, "intent": "preview"})
    assert "10 jobs, 0 exist already, 0 of the new ones were skipped" in text_of(counted)
    assert "Run 10" in text_of(counted)
    assert len((await api(office, "GET", "/api/jobs?limit=100"))["jobs"]) == 1
    answer = await sent(browser, path, {**fields_of(counted), "intent": "save"})
    assert answer.status == 303
    assert len((await api(office, "GET", "/api/jobs?limit=100"))["jobs"]) == 11
    again = await sent(browser, path, {**typed, "intent": "preview"})
    assert "0 jobs, 10 exist already" in text_of(again)
    assert "Run " not in text_of(again).partition("0 jobs")[2]


@pytest.mark.parametrize(
    ("typed", "field"),
    [
        ({"from": "soon", "to": "2026-02-11T00:00:00Z"}, "from"),
        ({"from": "2026-02-11T00:00:00Z", "to": "2026-02-01T00:00:00Z"}, "to"),
        ({"from": "2026-02-01T00:00:00Z", "to": "2026-02-11T00:00:00Z", "limit": "0"}, "limit"),
    ],
)
async def test_a_fault_of_a_backfill_stands_under_its_field(
    office: DashboardOffice, typed: dict[str, str], field: str
) -> None:
    id = await a_schedule(office)
    answer = await sent(await office.session(), f"/schedules/{id}/backfill", typed)
    assert re.search(rf'id="fault-{field}"[^>]*>[^<]', answer.body.decode()), answer.body


async def test_a_schedule_is_deleted_only_by_its_name(office: DashboardOffice) -> None:
    id = await a_schedule(office)
    browser = await office.session()
    path = f"/schedules/{id}/delete"
    assert (await sent(browser, path, {"name": "nightly"})).status == 422
    assert (await sent(browser, path, {})).status == 422
    assert (await browser.get(f"/schedules/{id}")).status == 200
    assert (await sent(browser, path, {"name": "Nightly ledger"})).status == 303
    assert (await browser.get(f"/schedules/{id}")).status == 404


async def test_a_job_is_made_and_rescheduled(office: DashboardOffice) -> None:
    browser = await office.session()
    answer = await filled(browser, "/jobs/new", task="mail", args="[7]", delay="1h", group="a")
    assert answer.status == 303, answer.body
    path = answer.headers["location"]
    for when, run_at in (
        ("10m", "2026-03-02T12:10:00Z"),
        ("PT20M", "2026-03-02T12:20:00Z"),
        ("2026-03-05T00:00:00Z", "2026-03-05T00:00:00Z"),
    ):
        assert (await sent(browser, f"{path}/reschedule", {"when": when})).status == 303
        assert (await api(office, "GET", f"/api{path}"))["run_at"] == run_at
    for when in ("", "soon", "2026-03-05"):
        assert (await sent(browser, f"{path}/reschedule", {"when": when})).status in {400, 422}


@pytest.mark.parametrize(
    ("typed", "field"),
    [
        ({"run_at": "soon"}, "run_at"),
        ({"delay": "soon"}, "delay"),
        ({"args": "{}"}, "args"),
        ({"more": '{"jobs": []}'}, "more"),
        ({"more": '{"nonsense": 1}'}, "more"),
        ({"target_kind": "http", "url": "nowhere"}, "url"),
    ],
)
async def test_a_fault_of_a_job_stands_under_its_field(
    office: DashboardOffice, typed: dict[str, str], field: str
) -> None:
    answer = await filled(await office.session(), "/jobs/new", **{"task": "mail", **typed})
    assert answer.status in {400, 422}
    assert re.search(rf'id="fault-{field}"[^>]*>[^<]', answer.body.decode()), answer.body


async def test_limits_are_changed_in_place(office: DashboardOffice) -> None:
    await api(office, "POST", "/api/jobs", {"task": "mail", "queue": "mail"})
    browser = await office.session()
    typed = {"concurrency": "5", "rate": "10/s", "late_after": "5m"}
    assert (await sent(browser, "/queues/mail/limits", typed)).status == 303
    (queue,) = (await api(office, "GET", "/api/queues"))["queues"]
    assert queue["limits"] == {"concurrency": 5, "rate": "10/s", "late_after": "5m"}
    wrong = await sent(browser, "/queues/mail/limits", {"concurrency": "6", "rate": "fast"})
    assert wrong.status == 422
    assert "rate must be a count" in text_of(wrong)
    assert fields_of(wrong)["rate"] == "fast"
    assert (await sent(browser, "/queues/mail/limits", {"rate": ""})).status == 303
    (queue,) = (await api(office, "GET", "/api/queues"))["queues"]
    assert queue["limits"] == {"concurrency": 5, "late_after": "5m"}


# Secrets


@pytest.mark.parametrize("kind", ["schedules", "jobs"])
async def test_clone_keeps_secrets_secret(office: DashboardOffice, kind: str) -> None:
    body = {"target": HOOK} if kind == "jobs" else {**NIGHTLY, "target": HOOK, "key": "nightly"}
    id = (await api(office, "POST", f"/api/{kind}", body))["id"]
    browser = await office.session()
    page = await browser.get(f"/{kind}/new?from={id}")
    fields = fields_of(page)
    assert fields["headers"] == '{"X-From": "onbeat"}'
    assert fields["url"] == "https://api.example.com/hook"
    assert "What is secret in the original is not copied" in text_of(page)
    assert SECRET not in page.body.decode()
    assert "Bearer 1234" not in page.body.decode()
    made = await sent(browser, f"/{kind}/new", {**fields, "intent": "save"})
    assert made.status == 303, made.body
    copy = await api(office, "GET", "/api" + made.headers["location"])
    assert copy["target"]["http"].get("secret_set") is None
    assert copy["target"]["http"]["headers"] == {"X-From": "onbeat"}
    assert "key" not in copy


async def test_a_clone_of_a_sensitive_job_has_no_arguments(office: DashboardOffice) -> None:
    body = {"task": "mail", "args": ["hunter2"], "kwargs": {"a": "hunter2"}, "sensitive": True}
    id = (await api(office, "POST", "/api/jobs", body))["id"]
    page = await (await office.session()).get(f"/jobs/new?from={id}")
    assert "hunter2" not in page.body.decode()
    assert fields_of(page)["args"] == ""
    assert "What is secret in the original is not copied" in text_of(page)


async def test_what_has_no_secrets_is_copied_whole(office: DashboardOffice) -> None:
    id = await a_schedule(office, key="nightly", labels={"a": "b"}, overlap="skip")
    browser = await office.session()
    page = await browser.get(f"/schedules/new?from={id}")
    assert "is not copied" not in text_of(page)
    made = await sent(browser, "/schedules/new", {**fields_of(page), "intent": "save"})
    assert made.status == 303, made.body
    copy = await api(office, "GET", "/api" + made.headers["location"])
    first = await api(office, "GET", f"/api/schedules/{id}")
    different = {name for name in first if first[name] != copy.get(name)}
    assert different <= {"id", "name", "key", "created_at", "updated_at", "anchor"}


# Whoever else sends forms


PATHS = {
    "/schedules/new": {"name": "x", "rule": "0 9 * * *", "kind": "cron", "task": "t"},
    "/schedules/{id}/edit": {"queue": "evil"},
    "/schedules/{id}/backfill": {"from": "2026-02-01T00:00:00Z", "to": "2026-02-02T00:00:00Z"},
    "/schedules/{id}/delete": {"name": "Nightly ledger"},
    "/jobs/new": {"task": "evil"},
    "/jobs/{job}/reschedule": {"when": "9h"},
    "/queues/{name}/limits": {"concurrency": "1"},
    "/queues/{name}/pause": {"note": "evil"},
    "/failures/{fault}/note": {"text": "evil"},
    "/alerts/silence": {"match": "*", "for": "1h"},
}


def test_every_form_is_tried_below_and_its_path_ends_as_it_should() -> None:
    assert {path.replace("{job}", "{id}") for path in PATHS} == {*FORMS}
    assert all(path.endswith(FORM_ENDINGS) for path in FORMS)


async def state_of(office: DashboardOffice) -> list[Any]:
    paths = ("/api/schedules", "/api/jobs?limit=100", "/api/queues", "/api/alerts")
    return [await api(office, "GET", path) for path in paths]


@pytest.fixture
async def place(office: DashboardOffice) -> dict[str, str]:
    job = await api(office, "POST", "/api/jobs", {"task": "mail", "delay": "1h"})
    return {"id": await a_schedule(office), "job": job["id"], "name": "default", "fault": "7"}


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize(
    ("headers", "given", "status"),
    [
        ({"sec_fetch_site": "cross-site"}, None, 403),
        ({"sec_fetch_site": "same-site"}, None, 403),
        ({"origin": "https://evil.example"}, None, 403),
        ({"origin": "null"}, None, 403),
        ({}, "", 401),
        ({}, "0" * 64, 401),
        ({}, "é", 401),
    ],
)
async def test_cross_site_post_refused(
    office: DashboardOffice,
    place: dict[str, str],
    path: str,
    headers: dict[str, str],
    given: str | None,
    status: int,
) -> None:
    before = await state_of(office)
    browser = await office.session()
    fields = {"proof": proof(browser) if given is None else given, **PATHS[path], "intent": "save"}
    body = urlencode(fields).encode()
    answer = await browser.send(
        "POST", path.format(**place), body, **{"content_type": FORM, **headers}
    )
    assert answer.status == status
    assert await state_of(office) == before


@pytest.mark.parametrize("path", PATHS)
async def test_a_form_without_any_proof_of_its_session_is_refused(
    office: DashboardOffice, place: dict[str, str], path: str
) -> None:
    before = await state_of(office)
    browser, other = await office.session(), await office.session()
    target, body = path.format(**place), urlencode({**PATHS[path], "intent": "save"}).encode()
    bare = await browser.send("POST", target, body, content_type=FORM)
    assert bare.status == 401
    assert OTHER_SESSION in text_of(bare)
    fields = {**PATHS[path], "intent": "save", "proof": proof(other)}
    assert (await sent(browser, target, fields)).status == 401
    nobody = await office.client().send("POST", target, body, content_type=FORM)
    assert nobody.status == 401
    json = await browser.send("POST", target, b"{}", content_type="application/json")
    assert json.status == 401
    assert await state_of(office) == before


async def test_the_proof_in_a_body_is_no_right_elsewhere(office: DashboardOffice) -> None:
    browser = await office.session()
    for path in ("/logout", "/jobs", "/api/jobs", "/api/queues/mail/limits", "/rpc", "/api/new"):
        answer = await sent(browser, path, {"task": "evil"})
        assert answer.status == 401, path
    assert (await browser.get("/jobs")).status == 200


@pytest.mark.parametrize("path", PATHS)
async def test_read_only_key_sees_no_form_and_is_refused(
    office: DashboardOffice, place: dict[str, str], path: str
) -> None:
    before = await state_of(office)
    reader = await office.session(READ)
    target = path.format(**place)
    answer = await sent(reader, target, {**PATHS[path], "intent": "save"})
    assert answer.status == 403
    if not path.endswith(("/reschedule", "/delete", "/limits", "/pause", "/note", "/silence")):
        assert (await reader.get(target)).status == 403
    pages = (
        "/schedules",
        "/jobs",
        "/queues",
        "/alerts",
        f"/schedules/{place['id']}",
        f"/jobs/{place['job']}",
    )
    for page in pages:
        text = (await reader.get(page)).body.decode()
        assert 'method="post"' not in text, page
        assert "/new" not in text, page
    assert (await reader.get("/settings")).status == 403
    assert await state_of(office) == before


async def test_a_service_without_keys_takes_forms_from_its_own_pages_only() -> None:
    office = DashboardOffice(keys=())
    client = office.client()
    fields = {**fields_of(await client.get("/jobs/new")), "task": "mail", "intent": "save"}
    body = urlencode(fields).encode()
    for site, status in (("cross-site", 403), ("same-origin", 303)):
        answer = await client.send(
            "POST", "/jobs/new", body, content_type=FORM, sec_fetch_site=site
        )
        assert answer.status == status


async def test_a_made_up_cookie_does_not_hide_a_foreign_host() -> None:
    """Its maker knows the proof of it, but not the name by which the service is known."""
    office = DashboardOffice(keys=())
    context = office.harness.context
    app = build_api(
        context,
        ApiOptions(keys=(), hosts=("localhost",)),
        pages=lambda access: dashboard_routes(context, access),
    )
    for host, status in (("evil.example", 403), ("localhost", 303)):
        client = RestClient(app, cookie="onbeat=made-up", host=host)
        answer = await sent(client, "/jobs/new", {"task": "mail", "intent": "save"})
        assert answer.status == status


async def test_a_session_is_ended_from_the_settings(office: DashboardOffice) -> None:
    browser, other = await office.session(), await office.session(READ)
    page = (await browser.get("/settings")).body.decode()
    names = re.findall(r'data-path="/api/keys/(session%3A[0-9a-f]+)"', page)
    assert len(names) == 2
    for name in names:
        answer = await browser.send("DELETE", f"/api/keys/{name}", None, onbeat_view=proof(browser))
        assert answer.status == 200
    office.harness.move(seconds=FRESH_SECONDS + 1)
    assert [(await one.get("/jobs")).status for one in (browser, other)] == [401, 401]
    names = [one["key"] for one in (await api(office, "GET", "/api/sessions"))["sessions"]]
    assert names == []


# Bounds


async def test_forms_are_bounded(office: DashboardOffice) -> None:
    browser = await office.session()
    whole = {"task": "mail", "intent": "save", "proof": proof(browser)}
    rest = FORM_BYTES_MAX - len(urlencode({**whole, "more": ""}))
    for extra, status in ((0, 303), (1, 413)):
        # A space is one byte of a form.
        body = urlencode({**whole, "more": " " * (rest + extra)}).encode()
        assert len(body) == FORM_BYTES_MAX + extra
        answer = await browser.send("POST", "/jobs/new", body, content_type=FORM)
        assert answer.status == status
    twice = [("task", "mail")] * (FIELDS_MAX - 2)
    for extra, status in ((0, 303), (1, 400)):
        fields = [*twice, *[("task", "mail")] * extra, *list(whole.items())[1:]]
        answer = await browser.send(
            "POST", "/jobs/new", urlencode(fields).encode(), content_type=FORM
        )
        assert answer.status == status
    wrong = await browser.send("POST", "/jobs/new", b"\xff=1", content_type=FORM)
    assert wrong.status == 400


@pytest.mark.parametrize("path", PATHS)
async def test_a_field_that_a_form_does_not_have_is_refused(
    office: DashboardOffice, place: dict[str, str], path: str
) -> None:
    before = await state_of(office)
    fields = {**PATHS[path], "nonsense": "1", "intent": "save"}
    answer = await sent(await office.session(), path.format(**place), fields)
    assert answer.status == 422
    assert "nonsense is not a known parameter" in text_of(answer)
    assert await state_of(office) == before


# What comes back


@pytest.mark.parametrize("payload", PAYLOADS)
async def test_a_payload_in_every_field_comes_back_as_text(payload: str) -> None:
    office = DashboardOffice(keys=())
    client = office.client()
    for path in ("/schedules/new", "/jobs/new"):
        pages = []
        for text in (payload, "harmless"):
            fields = dict.fromkeys(fields_of(await client.get(path)), text)
            typed = {**fields, "kind": "cron", "target_kind": "task", "intent": "save", "proof": ""}
            answer = await sent(client, path, typed)
            assert answer.status in {400, 422}, path
            structure = Structure()
            structure.feed(answer.body.decode())
            pages.append(structure)
        known = [[tag for tag in page.tags if "aria-invalid" not in tag] for page in pages]
        assert len(known[0]) == len(known[1]), path
        assert {*pages[0].links} == {*pages[1].links}
