"""Sessions as an attacker tries them, and as a careful user needs them."""

import asyncio
import logging
from typing import Any

import pytest

from dashboard.office import ADMIN, FORM, KEYS, READ, DashboardOffice, posted, proof, token_of
from onbeat.api.key_refusals import REFUSED_MAX
from onbeat.api.keyring import FRESH_SECONDS
from onbeat.dashboard.login import FIELDS_MAX, FORM_BYTES_MAX, IN_CLEAR
from onbeat.model.errors import Unavailable
from onbeat.operations.tables.administration import AUDIT_LIST, KEY_CREATE, KEY_LIST, KEY_REVOKE
from onbeat.rules.sessions import AGE_MAX, IDLE_MAX, PER_KEY_MAX
from onbeat.stores.memory import MemoryStore

HTML = "text/html,application/xhtml+xml"
FOREIGN = "203.0.113.7"


@pytest.fixture
def office() -> DashboardOffice:
    return DashboardOffice()


# The cookie


async def test_the_cookie_is_out_of_reach_of_scripts_and_of_other_sites(
    office: DashboardOffice,
) -> None:
    parts = (await office.log_in(READ)).headers["set-cookie"].split("; ")
    assert parts[0].startswith("onbeat=onb_")
    assert {"HttpOnly", "Path=/", "SameSite=lax", "Max-Age=43200"} == set(parts[1:])


async def test_over_https_no_other_host_can_set_the_cookie(office: DashboardOffice) -> None:
    secure = office.client(FOREIGN, "https")
    answer = await office.log_in(READ, client=secure)
    parts = answer.headers["set-cookie"].split("; ")
    assert parts[0].startswith("__Host-onbeat=onb_")
    assert {"HttpOnly", "Path=/", "SameSite=lax", "Secure", "Max-Age=43200"} == set(parts[1:])
    token = token_of(answer)
    assert (await secure.get("/jobs", cookie=f"__Host-onbeat={token}")).status == 200
    assert (await secure.get("/jobs", cookie=f"onbeat={token}")).status == 401


@pytest.mark.parametrize("name", ["authorization", "x_api_key"])
async def test_the_token_of_a_session_is_no_key(office: DashboardOffice, name: str) -> None:
    token = token_of(await office.log_in(ADMIN))
    value = f"Bearer {token}" if name == "authorization" else token
    for path in ("/api/jobs", "/jobs", "/metrics"):
        assert (await office.client().get(path, **{name: value})).status == 401
    assert (await office.log_in(token)).status == 401


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("GET", "/api/jobs"),
        ("GET", "/api/keys"),
        ("HEAD", "/api/jobs"),
        ("GET", "/metrics"),
        ("POST", "/api/jobs"),
        ("POST", "/rpc"),
        ("PUT", "/api/schedules/x"),
        ("DELETE", "/api/keys/boss"),
        ("POST", "/logout"),
        ("POST", "/jobs"),
        ("PUT", "/jobs"),
        ("DELETE", "/"),
        ("TRACE", "/"),
        ("PROPFIND", "/jobs"),
    ],
)
@pytest.mark.parametrize("sent", [None, "", "0" * 64, "é", "onb_x"])
async def test_the_cookie_alone_is_no_right_but_to_look_at_pages(
    office: DashboardOffice, method: str, path: str, sent: str | None
) -> None:
    browser = await office.session()
    headers = {} if sent is None else {"onbeat_view": sent}
    answer = await browser.send(method, path, None, **headers)
    assert answer.status == 401


async def test_a_page_of_ours_calls_the_api_with_its_proof(office: DashboardOffice) -> None:
    browser = await office.session()
    answer = await browser.post("/api/queues/mail/pause", {}, onbeat_view=proof(browser))
    assert answer.status == 200
    other = await office.session()
    answer = await browser.post("/api/queues/mail/resume", {}, onbeat_view=proof(other))
    assert answer.status == 401


async def test_a_page_holds_the_proof_and_never_the_token(office: DashboardOffice) -> None:
    browser = await office.session()
    page = (await browser.get("/jobs")).body.decode()
    assert proof(browser) in page
    assert browser.headers["cookie"].partition("=")[2] not in page
    assert ADMIN not in page


@pytest.mark.parametrize(
    "headers",
    [
        {"sec_fetch_site": "cross-site"},
        {"sec_fetch_site": "same-site"},
        {"origin": "https://evil.example"},
        {"origin": "null"},
    ],
)
async def test_pages_of_other_sites_change_nothing(office: DashboardOffice, headers: Any) -> None:
    browser = await office.session()
    proven = {"onbeat_view": proof(browser), **headers}
    assert (await browser.post("/api/queues/mail/pause", {}, **proven)).status == 403
    assert (await browser.post("/logout", {}, **proven)).status == 403
    assert (await office.log_in(ADMIN, **headers)).status == 403


# The end of a session


async def test_a_session_ends_when_it_is_old(office: DashboardOffice) -> None:
    browser = await office.session()
    for _ in range(int(AGE_MAX / IDLE_MAX) * 2 - 1):
        office.harness.clock.at += IDLE_MAX / 2
        assert (await browser.get("/help")).status == 200
    office.harness.clock.at += IDLE_MAX / 2
    assert (await browser.get("/help")).status == 401


async def test_a_session_ends_when_nobody_uses_it(office: DashboardOffice) -> None:
    browser = await office.session()
    office.harness.clock.at += IDLE_MAX
    assert (await browser.get("/help")).status == 200
    office.harness.clock.at += IDLE_MAX
    office.harness.move(seconds=1)
    assert (await browser.get("/help")).status == 401


async def test_a_use_in_another_process_keeps_a_session(office: DashboardOffice) -> None:
    other = DashboardOffice(harness=office.harness)
    token = token_of(await office.log_in(ADMIN))
    here, there = (one.client(cookie=f"onbeat={token}") for one in (office, other))
    office.harness.move(minutes=2)
    assert (await here.get("/help")).status == 200
    for _ in range(2):
        office.harness.clock.at += IDLE_MAX - 2 * (IDLE_MAX / 30)
        assert (await there.get("/help")).status == 200
    assert (await here.get("/help")).status == 200


async def test_a_log_out_ends_the_session_in_every_process(office: DashboardOffice) -> None:
    other = DashboardOffice(harness=office.harness)
    browser = await office.session()
    there = other.client(**browser.headers)
    assert (await there.get("/help")).status == 200
    answer = await browser.post("/logout", {}, onbeat_view=proof(browser))
    assert answer.status == 200
    assert "Max-Age=0" in answer.headers["set-cookie"]
    assert (await browser.get("/help")).status == 401
    office.harness.move(seconds=FRESH_SECONDS)
    assert (await there.get("/help")).status == 401


async def test_a_log_in_counts_at_once_in_every_process(office: DashboardOffice) -> None:
    other = DashboardOffice(harness=office.harness)
    assert (await other.client(authorization=f"Bearer {READ}").get("/help")).status == 200
    browser = await office.session()
    assert (await other.client(**browser.headers).get("/help")).status == 200


async def test_a_session_ends_with_its_stored_key(office: DashboardOffice) -> None:
    made = await office.harness.ask(KEY_CREATE, {"name": "ops", "scopes": ["operate"]})
    browser = await office.session(made["key"])
    await office.harness.ask(KEY_REVOKE, name="ops")
    office.harness.move(seconds=FRESH_SECONDS)
    assert (await browser.get("/help")).status == 401
    again = await office.harness.ask(KEY_CREATE, {"name": "ops", "scopes": ["admin"]})
    office.harness.move(seconds=FRESH_SECONDS)
    assert (await browser.get("/help")).status == 401, "a key of the same name does not inherit it"
    assert (await office.log_in(again["key"])).status == 303


@pytest.mark.parametrize("keys", [KEYS[:1], (KEYS[0], "look:read=another-key-of-the-test-4")])
async def test_a_session_ends_with_its_configured_key(
    office: DashboardOffice, keys: tuple[str, ...]
) -> None:
    browser = await office.session(READ)
    restarted = DashboardOffice(keys, office.harness.store)
    assert (await restarted.client(**browser.headers).get("/help")).status == 401


async def test_a_session_has_the_rights_that_its_key_has_now(office: DashboardOffice) -> None:
    browser = await office.session(ADMIN)
    assert (await browser.get("/audit")).status == 200
    restarted = DashboardOffice((f"boss:read={ADMIN}",), office.harness.store)
    assert (await restarted.client(**browser.headers).get("/jobs")).status == 200
    assert (await restarted.client(**browser.headers).get("/audit")).status == 403


async def test_a_session_ends_when_its_key_expires(office: DashboardOffice) -> None:
    draft = {"name": "short", "scopes": ["read"], "expires": "10m"}
    made = await office.harness.ask(KEY_CREATE, draft)
    browser = await office.session(made["key"])
    office.harness.move(minutes=10)
    assert (await browser.get("/help")).status == 401


async def test_sessions_that_remain_are_no_keys() -> None:
    """The last key is revoked: as before its creation, everybody may do everything."""
    office = DashboardOffice(keys=())
    made = await office.harness.ask(KEY_CREATE, {"name": "only", "scopes": ["read"]})
    browser = await office.session(made["key"])
    assert (await office.client().get("/jobs")).status == 401
    await office.harness.ask(KEY_REVOKE, name="only")
    office.harness.move(seconds=FRESH_SECONDS)
    assert (await office.client().get("/jobs")).status == 200
    assert (await browser.get("/jobs")).status == 200
    assert (await office.harness.ask(KEY_LIST))["keys"] == []


async def test_a_key_has_a_bounded_number_of_sessions(office: DashboardOffice) -> None:
    first = await office.session()
    for _ in range(PER_KEY_MAX):
        office.harness.move(seconds=1)
        last = await office.session()
    assert (await first.get("/help")).status == 401
    assert (await last.get("/help")).status == 200
    assert len(await office.harness.store.keys()) == PER_KEY_MAX


async def test_wrong_sessions_make_one_query_at_a_time() -> None:
    store = CountingStore()
    office = DashboardOffice(store=store)
    browser = await office.session(READ)
    store.queries = 0
    wrong = office.client(cookie="onbeat=guess")
    store.reached.clear()
    store.gate.clear()
    guesses = [asyncio.create_task(wrong.get("/help")) for _ in range(100)]
    await store.reached.wait()
    store.gate.set()
    assert {(await guess).status for guess in guesses} == {401}
    assert store.queries <= 2
    assert (await browser.get("/help")).status == 200


class CountingStore(MemoryStore):
    """Its keys are read while the gate is open."""

    def __init__(self) -> None:
        super().__init__()
        self.queries = 0
        self.gate, self.reached = asyncio.Event(), asyncio.Event()
        self.gate.set()

    async def keys(self) -> Any:
        self.queries += 1
        self.reached.set()
        await self.gate.wait()
        return await super().keys()


# The form


async def test_a_wrong_key_and_an_expired_one_are_answered_alike(office: DashboardOffice) -> None:
    draft = {"name": "short", "scopes": ["read"], "expires": "1m"}
    made = await office.harness.ask(KEY_CREATE, draft)
    office.harness.move(minutes=2)
    mistyped = made["key"][:-1] + ("0" if made["key"][-1] != "0" else "1")
    answers = [await office.log_in(key) for key in ("guess", made["key"], mistyped, "", "\u00e9")]
    assert {answer.status for answer in answers} == {401}
    assert len({answer.body for answer in answers}) == 1
    assert b"This key is not known here" in answers[0].body
    assert all("set-cookie" not in answer.headers for answer in answers)


async def test_a_guesser_is_slowed_and_a_valid_key_is_not(office: DashboardOffice) -> None:
    for _ in range(REFUSED_MAX):
        assert (await office.log_in("guess")).status == 401
    slowed = await office.log_in("guess")
    assert slowed.status == 429
    assert slowed.headers["retry-after"] == "60"
    assert b"wait 60 s" in slowed.body
    assert (await office.log_in(READ)).status == 303
    assert (await office.log_in("guess", client=office.client("::1"))).status == 401
    office.harness.move(seconds=60)
    assert (await office.log_in("guess")).status == 401


BODIES = {
    "too large": (b"key=" + b"x" * FORM_BYTES_MAX, FORM, 413),
    "too many fields": (b"&".join(b"f%d=1" % n for n in range(FIELDS_MAX + 1)), FORM, 400),
    "not UTF-8": (b"key=\xff\xfe", FORM, 400),
    "escapes that are not UTF-8": (b"key=%ff%fe", FORM, 401),
    "NUL": (b"key=%00&next=%00", FORM, 401),
    "JSON": (b'{"key": "x"}', "application/json", 400),
    "text": (f"key={ADMIN}".encode(), "text/plain", 400),
    "parts": (b"--x\r\n", "multipart/form-data; boundary=x", 400),
    "no type": (f"key={ADMIN}".encode(), "", 400),
    "nothing": (b"", FORM, 401),
    "two keys": (f"key={ADMIN}&key=guess".encode(), FORM, 401),
}


@pytest.mark.parametrize(("body", "kind", "status"), BODIES.values(), ids=BODIES.keys())
async def test_a_bad_form_is_a_clear_refusal(
    office: DashboardOffice, body: bytes, kind: str, status: int
) -> None:
    answer = await office.client().send("POST", "/login", body, content_type=kind)
    assert answer.status == status
    assert b'role="alert"' in answer.body
    assert answer.headers["content-type"].startswith("text/html")


async def test_a_form_at_its_limits_is_read(office: DashboardOffice) -> None:
    fields = f"key={READ}&next=/jobs&x="
    body = fields.encode() + b"x" * (FORM_BYTES_MAX - len(fields))
    answer = await office.client().send("POST", "/login", body, content_type=f"{FORM}; charset=x")
    assert answer.headers["location"] == "/jobs"


@pytest.mark.parametrize(
    "path",
    [
        "//evil.example",
        "///evil.example",
        "/\\evil.example",
        "\\\\evil.example",
        "https://evil.example",
        "javascript:alert(1)",
        "data:text/html,x",
        " //evil.example",
        "/\t/evil.example",
        "/\r\nSet-Cookie: a=b",
        "/\x00",
        "jobs",
        "",
        "/" + "x" * 1_000,
    ],
)
async def test_a_log_in_never_leads_away(office: DashboardOffice, path: str) -> None:
    answer = await office.log_in(READ, path)
    assert answer.headers["location"] == "/"


@pytest.mark.parametrize("path", ["/jobs?state=failed&task=a%26b", "/events/a%3Fb?source=%2F"])
async def test_a_log_in_leads_back_to_the_page(office: DashboardOffice, path: str) -> None:
    refused = await office.client(accept=HTML).get(path)
    assert refused.status == 303
    form = (await office.client().get(refused.headers["location"])).body.decode()
    assert f'name="next" value="{path.replace("&", "&amp;")}"' in form
    assert (await office.log_in(READ, path)).headers["location"] == path


@pytest.mark.parametrize("method", ["GET", "POST"])
async def test_no_key_is_taken_in_clear_over_a_network(
    office: DashboardOffice, method: str
) -> None:
    far = office.client(FOREIGN)
    answer = await (far.get("/login") if method == "GET" else posted(far, {"key": ADMIN}))
    assert answer.status == 403
    assert IN_CLEAR in answer.body.decode()
    assert b'name="key"' not in answer.body
    assert "set-cookie" not in answer.headers


@pytest.mark.parametrize("peer", ["127.0.0.1", "127.8.8.8", "::1", "::ffff:127.0.0.1"])
async def test_this_machine_needs_no_https(office: DashboardOffice, peer: str) -> None:
    assert (await office.log_in(READ, client=office.client(peer))).status == 303


@pytest.mark.parametrize("peer", [FOREIGN, "::ffff:203.0.113.7", "unknown", "127.0.0.1.evil"])
async def test_other_peers_do(office: DashboardOffice, peer: str) -> None:
    assert (await office.log_in(READ, client=office.client(peer))).status == 403


async def test_without_keys_there_is_no_log_in() -> None:
    office = DashboardOffice(keys=())
    for answer in (await office.client().get("/login"), await office.log_in("x")):
        assert (answer.status, answer.headers["location"]) == (303, "/")
        assert "set-cookie" not in answer.headers
    page = (await office.client().get("/")).body
    assert b"open to everybody who reaches this address" in page
    assert b"Log out" not in page


async def test_while_the_store_is_away_the_log_in_says_so() -> None:
    store = LostStore()
    office = DashboardOffice(keys=(), store=store)
    store.is_away = True
    for answer in (await office.client().get("/login"), await office.log_in(READ)):
        assert answer.status == 503
        assert b"The store is away" in answer.body


class LostStore(MemoryStore):
    is_away = False

    async def keys(self) -> Any:
        if self.is_away:
            raise Unavailable("The store is away")
        return await super().keys()


# What is left behind


async def test_the_key_is_in_no_page_and_no_log(
    office: DashboardOffice, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    guess = "onb_a-guess-that-is-secret-too"
    texts = [(await office.log_in(guess)).body.decode()]
    browser = await office.session(ADMIN)
    answers = [await browser.get(path) for path in ("/", "/audit", "/jobs", "/nowhere")]
    texts += [answer.body.decode() for answer in answers]
    texts += [record.getMessage() + repr(record.__dict__) for record in caplog.records]
    token = browser.headers["cookie"].partition("=")[2]
    for text in texts:
        for secret in (guess, ADMIN, token):
            assert secret not in text


async def test_log_in_and_log_out_are_audited(office: DashboardOffice) -> None:
    browser = await office.session(READ)
    await office.log_in("guess")
    await browser.post("/logout", {}, onbeat_view=proof(browser))
    records = (await office.harness.ask(AUDIT_LIST))["records"]
    seen = [(one["actor"], one["action"], one["outcome"]) for one in records]
    assert seen == [("look", "session.end", "done"), ("look", "session.begin", "done")]
