"""What every answer has, whatever was sent, and what no template may have."""

import re
from html.parser import HTMLParser
from importlib.resources import files

import pytest
from jinja2 import nodes

from dashboard.office import ADMIN, READ, DashboardOffice
from interfaces.rest_client import RestClient
from onbeat.dashboard.renderer import FOR_EVER, POLICY, asset_path, assets, environment
from onbeat.dashboard.routes import PAGES

LISTS = [path for path in PAGES if "{" not in path]
UNKNOWN_ID = "01900000-0000-7000-8000-00000000ffff"


@pytest.fixture
async def browser() -> RestClient:
    return await DashboardOffice().session(ADMIN)


async def test_a_browser_is_shown_a_page_where_nothing_is(browser: RestClient) -> None:
    answer = await browser.get("/nowhere/<b>", accept="text/html,*/*")
    page = answer.body.decode()
    assert (answer.status, answer.headers["content-type"]) == (404, "text/html; charset=utf-8")
    assert "There is nothing at /nowhere/&lt;b&gt;" in page
    assert '<a class="button" href="/">To the first page</a>' in page


@pytest.mark.parametrize(
    ("path", "accept"),
    [("/nowhere", "*/*"), ("/api/nowhere", "text/html"), ("/docs/nowhere", "text/html")],
)
async def test_programs_are_answered_json_where_nothing_is(path: str, accept: str) -> None:
    program = DashboardOffice().client(**{"x-api-key": ADMIN})
    answer = await program.get(path, accept=accept)
    assert (answer.status, answer.error["code"]) == (404, "not_found")


async def test_who_has_no_session_is_led_to_the_log_in_from_anywhere() -> None:
    answer = await DashboardOffice().client().get("/nowhere", accept="text/html")
    assert (answer.status, answer.headers["location"]) == (303, "/login?next=%2Fnowhere")


# Headers

ANSWERS = {
    "a page": ("GET", "/jobs", 200),
    "a page without its body": ("HEAD", "/jobs", 200),
    "a page of nothing": ("GET", f"/jobs/{UNKNOWN_ID}", 404),
    "a bad parameter": ("GET", "/jobs?color=red", 422),
    "a redirect of the search": ("GET", "/jobs?q=mail", 303),
    "a redirect to the path without a slash": ("GET", "/jobs/", 307),
    "no such path": ("GET", "/nowhere", 404),
    "no such method": ("OPTIONS", "/jobs", 405),
    "the log-in": ("GET", "/login", 200),
    "an asset": ("GET", asset_path("main.js"), 200),
    "an asset of another version": ("GET", "/assets/0000000000000000/main.js", 404),
    "the API without a right": ("GET", "/api/jobs", 401),
    "a document": ("GET", "/docs/openapi.json", 200),
}


@pytest.mark.parametrize(("method", "path", "status"), ANSWERS.values(), ids=ANSWERS.keys())
async def test_every_answer_has_the_headers_for_browsers(
    browser: RestClient, method: str, path: str, status: int
) -> None:
    answer = await browser.send(method, path)
    assert answer.status == status
    headers = answer.headers
    assert headers["x-content-type-options"] == "nosniff"
    assert headers["referrer-policy"] == "no-referrer"
    assert headers["x-frame-options"] == "DENY"
    assert headers["cross-origin-resource-policy"] == "same-origin"
    is_page = headers.get("content-type", "").startswith("text/html")
    policy = headers["content-security-policy"]
    assert policy == POLICY if is_page else policy.startswith("default-src 'none'")
    assert "unsafe" not in policy
    if is_page:
        assert headers["cross-origin-opener-policy"] == "same-origin"
    kept = path.startswith("/assets/") and status == 200
    assert headers["cache-control"] == (FOR_EVER if kept else "no-store")


@pytest.mark.parametrize("headers", [{}, {"accept": "text/html"}])
async def test_a_refusal_has_them_too(headers: dict[str, str]) -> None:
    answer = await DashboardOffice().client(**headers).get("/jobs")
    assert answer.status == (303 if headers else 401)
    assert answer.headers["x-frame-options"] == "DENY"
    assert answer.headers["content-security-policy"].startswith("default-src 'none'")
    assert answer.headers["cache-control"] == "no-store"


# Paths and parameters


@pytest.mark.parametrize("path", LISTS)
@pytest.mark.parametrize("name", ["color", "self", "operation", "context", "request", "<b>", "a\0"])
async def test_an_unknown_parameter_is_refused_in_words(
    browser: RestClient, path: str, name: str
) -> None:
    shown = {"<b>": "&lt;b&gt;", "a\0": "a"}.get(name, name)
    answer = await browser.get(f"{path}?{name.replace(chr(0), '%00')}=1")
    page = answer.body.decode()
    assert answer.status == 422, page
    assert shown in page
    assert "<h1>This did not work</h1>" in page
    assert "<b>=" not in page
    assert "\0" not in page


@pytest.mark.parametrize("path", ["/jobs", "/schedules", "/flows", "/dead", "/events"])
@pytest.mark.parametrize("query", ["", "?id=x&color=red", "?color=red", "?operation=1"])
async def test_what_is_not_there_is_said_in_words(
    browser: RestClient, path: str, query: str
) -> None:
    for id in (UNKNOWN_ID, "x", "%00", "%3Cb%3E", "..%2F..%2Fetc", "%F0%9F%92%A5", "x" * 2_000):
        answer = await browser.get(f"{path}/{id}{query}")
        assert answer.status in {400, 404, 422}, answer.body


@pytest.mark.parametrize(
    "query",
    [
        "limit=0",
        "limit=x",
        "limit=99999999999999999999",
        "limit=-1",
        "cursor=x",
        "cursor=%00",
        "page=0",
        "page=99999999999",
        "state=gone",
        "task=%00",
        "queue=%00",
        "queue=%ed%a0%80",
        "type=%00",
        "since=x",
        "q=%00",
        "&".join(f"p{n}=1" for n in range(2_000)),
    ],
)
async def test_odd_values_are_never_unexpected(browser: RestClient, query: str) -> None:
    for path in LISTS:
        answer = await browser.get(f"{path}?{query}")
        assert answer.status < 500, (path, answer.body)


@pytest.mark.parametrize("path", ["/queues/%ff", "/jobs?queue=%ff"])
async def test_an_address_that_is_not_utf8_is_said_in_words(browser: RestClient, path: str) -> None:
    answer = await browser.get(path)
    assert answer.status == 400
    assert "is not UTF-8 in the address, which has %FF" in answer.body.decode()


async def test_a_plus_that_became_a_space_is_said_in_words(browser: RestClient) -> None:
    answer = await browser.get("/timeline?day=2026-01-01T00:00:00+02:00")
    assert answer.status == 422
    assert "a + in an address is a space: write it as %2B" in answer.body.decode()


@pytest.mark.parametrize(
    "cookie",
    [
        "onbeat-zone=../../../etc/passwd",
        "onbeat-zone=%00",
        "onbeat-zone=Europe",
        "onbeat-zone=Europe/Nowhere; onbeat-theme=<b>",
        'onbeat-theme="><script>',
        "onbeat-zone=" + "x" * 5_000,
        "onbeat-zone=%FF%FE",
    ],
)
async def test_odd_cookies_are_as_none(browser: RestClient, cookie: str) -> None:
    answer = await browser.get("/help", cookie=f"{browser.headers['cookie']}; {cookie}")
    assert answer.status == 200
    assert b'data-theme="auto" data-zone="UTC"' in answer.body


@pytest.mark.parametrize("size", [1, 5, 500])
async def test_a_list_is_as_long_as_is_wanted(browser: RestClient, size: int) -> None:
    for path in ("/jobs", "/queues", "/schedules", "/events", "/dead", "/audit"):
        assert (await browser.get(f"{path}?limit={size}")).status == 200


# Assets


@pytest.mark.parametrize(
    "name",
    [
        "../renderer.py",
        "..%2Frenderer.py",
        "%2e%2e/renderer.py",
        "..%5Crenderer.py",
        "main.js%00",
        "main.js%00.css",
        "Main.js",
        "",
        ".",
        "%2Fetc%2Fpasswd",
    ],
)
async def test_only_assets_are_served(browser: RestClient, name: str) -> None:
    answer = await browser.get(asset_path(name))
    assert answer.status == 404


async def test_every_asset_needs_no_key() -> None:
    stranger = DashboardOffice().client()
    for name, content in assets().items():
        answer = await stranger.get(asset_path(name))
        assert (answer.status, answer.body) == (200, content)
        for path in (f"/assets/{name}", f"/assets/x/{name}", asset_path(name) + "/x"):
            assert (await stranger.get(path)).status == 404


# Templates

TEMPLATES = {
    file.name: file.read_text()
    for file in files("onbeat.dashboard").joinpath("templates").iterdir()
    if file.name.endswith(".html")
}
TEMPLATE_SYNTAX = re.compile(r"\{%.*?%\}|\{\{.*?\}\}|\{#.*?#\}", re.DOTALL)
TAG = re.compile(r"<[a-zA-Z][^<>]*>")
UNQUOTED = re.compile(r"=(?![\"'])[^\s>]")
QUOTED = re.compile(r"\"[^\"]*\"")


@pytest.mark.parametrize("name", TEMPLATES)
def test_no_template_turns_escaping_off(name: str) -> None:
    tree = environment().parse(TEMPLATES[name])
    assert {"safe", "forceescape", "tojson", "xmlattr"}.isdisjoint(
        one.name for one in tree.find_all(nodes.Filter)
    )
    assert not [*tree.find_all((nodes.ScopedEvalContextModifier, nodes.MarkSafe))]
    assert {"Markup", "__html__"}.isdisjoint(one.name for one in tree.find_all(nodes.Name))
    assert "__html__" not in {one.attr for one in tree.find_all(nodes.Getattr)}


class InlineFinder(HTMLParser):
    """Scripts, styles and handlers that stand in the page."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        names = {name for name, _ in attrs}
        if tag in {"style", "iframe", "object", "embed", "base"}:
            self.found.append(tag)
        if tag == "script" and "src" not in names:
            self.found.append("script without src")
        self.found += [name for name in names if name == "style" or name.startswith("on")]
        self.found += [name for name in names if name == "srcdoc"]


@pytest.mark.parametrize("name", TEMPLATES)
def test_nothing_in_a_template_is_run_or_styled_in_place(name: str) -> None:
    finder = InlineFinder()
    finder.feed(TEMPLATE_SYNTAX.sub("x", TEMPLATES[name]))
    assert finder.found == []


@pytest.mark.parametrize("name", TEMPLATES)
def test_every_attribute_is_quoted(name: str) -> None:
    for tag in TAG.findall(TEMPLATE_SYNTAX.sub("x", TEMPLATES[name])):
        assert not UNQUOTED.search(QUOTED.sub('""', tag)), tag


@pytest.mark.parametrize("name", TEMPLATES)
def test_a_value_in_an_address_is_made_by_a_function_that_escapes(name: str) -> None:
    """The name of a mark, behind a `#`, is one of the templates' own."""
    for place, value in re.findall(r'(href|src|action|data-path)="([^"#][^"]*)"', TEMPLATES[name]):
        for code in re.findall(r"\{\{(.*?)\}\}", value):
            assert code.split("(")[0].strip() in {"link", "asset", "api", "path"}, (place, code)


async def test_workers_show_their_memory_and_release() -> None:
    office = DashboardOffice()
    await office.harness.hire("mail", memory=84_300_000, release="2026.11")
    page = (await (await office.session(READ)).get("/workers")).body.decode()
    assert 'data-label="memory">84 MB</td>' in page
    assert "release 2026.11" in page
