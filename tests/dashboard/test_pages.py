"""What a stranger sees: every page in a real browser, with every right."""

import re
from collections.abc import Iterator
from typing import Any

import pytest
from playwright.sync_api import Browser, BrowserContext, Page, expect

from conditions import eventually_here
from dashboard.conftest import ADMIN, OPERATE, PAYLOAD, READ, address, details, jobs, tell
from interfaces.up import Up

pytestmark = pytest.mark.xdist_group("browser")

PAGES = [
    "/",
    "/timeline",
    "/schedules",
    "/jobs",
    "/failures",
    "/queues",
    "/workers",
    "/flows",
    "/events",
    "/dead",
    "/alerts",
    "/audit",
    "/settings",
]


@pytest.fixture
def visit(browser: Browser, service: Up) -> Iterator[BrowserContext]:
    """A browser that nobody has used before."""
    context = browser.new_context(base_url=address(service), timezone_id="Europe/Lisbon")
    context.set_default_timeout(30_000)
    yield context
    context.close()


def log_in(visit: BrowserContext, key: str, path: str = "/") -> Page:
    page = visit.new_page()
    zone = page.evaluate("Intl.DateTimeFormat().resolvedOptions().timeZone")
    page.goto(path)
    page.get_by_label("Key").fill(key)
    page.get_by_role("button", name="Log in").click()
    expect(page.get_by_role("link", name="Onbeat", exact=True)).to_be_visible()
    # The first page of a browser is loaded again, in its zone; then its scripts have run.
    expect(page.locator("html")).to_have_attribute("data-zone", zone)
    page.wait_for_load_state()
    return page


def watch(page: Page, service: Up) -> list[str]:
    """Faults of the page: messages of its console, and requests to others."""
    faults: list[str] = []
    own = address(service)
    page.on("console", lambda message: faults.append(message.text))
    page.on("pageerror", lambda error: faults.append(str(error)))
    page.on("dialog", lambda dialog: faults.append(f"dialog: {dialog.message}"))
    page.on(
        "request",
        lambda request: None if request.url.startswith(own) else faults.append(request.url),
    )
    return faults


def test_every_page_is_whole_and_quiet(visit: BrowserContext, service: Up) -> None:
    page = log_in(visit, ADMIN)
    faults = watch(page, service)
    for path in [*PAGES, *details(service), "/help"]:
        response = page.goto(path)
        assert response is not None
        assert response.status == 200, path
        assert page.locator("h1, .verdict h1").count() >= 1, path
        assert page.title().endswith("· Onbeat")
        assert page.locator("img, iframe, object").count() == 0, path
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth"), path
    assert faults == []


def test_what_handlers_and_callers_wrote_is_text(visit: BrowserContext, service: Up) -> None:
    page = log_in(visit, READ)
    faults = watch(page, service)
    for path in [*PAGES[:-2], *details(service)]:
        page.goto(path)
        assert "62615533" not in page.locator("main").inner_text(), path
    page.goto(details(service)[0])
    expect(page.locator("main")).to_contain_text(PAYLOAD)
    assert faults == []


@pytest.mark.parametrize(("width", "theme"), [(390, "dark"), (1_280, "light"), (2_560, "dark")])
def test_nothing_is_wider_than_the_window(
    browser: Browser, service: Up, width: int, theme: Any
) -> None:
    context = browser.new_context(
        base_url=address(service), viewport={"width": width, "height": 844}, color_scheme=theme
    )
    page = log_in(context, ADMIN)
    for path in [*PAGES, *details(service)]:
        page.goto(path)
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth"), path
    context.close()


def test_pages_are_read_without_script(browser: Browser, service: Up) -> None:
    context = browser.new_context(base_url=address(service), java_script_enabled=False)
    page = log_in(context, READ, "/jobs?state=failed")
    assert page.url.endswith("/jobs?state=failed")
    expect(page.locator("tbody tr")).to_have_count(1)
    page.get_by_role("link", name="shop.charge").click()
    expect(page.get_by_role("heading", name="shop.charge")).to_be_visible()
    context.close()


def test_times_are_in_the_zone_of_the_viewer(visit: BrowserContext) -> None:
    page = log_in(visit, READ)
    expect(page.locator(".head")).to_contain_text("Europe/Lisbon")
    page.goto("/schedules?q=ledger")
    page.get_by_role("link", name=re.compile("Nightly")).click()
    expect(page.locator("main")).to_contain_text("02:30:00 in Europe/Berlin")


def test_a_failed_job_is_tried_again_by_a_click(visit: BrowserContext, service: Up) -> None:
    page = log_in(visit, OPERATE)
    page.goto(f"/jobs/{jobs(service, 'failed')[0]['id']}")
    attempts = page.get_by_role("region", name="Attempts").locator("tbody tr")
    expect(attempts).to_have_count(1)
    page.get_by_role("button", name="Retry").click()
    expect(page.locator(".toast")).to_have_text("The job waits again")
    eventually_here(lambda: jobs(service, "failed"), "it has failed again")
    page.reload()
    expect(attempts).to_have_count(2)


def test_a_question_is_put_before_what_cannot_be_undone(visit: BrowserContext, service: Up) -> None:
    target = {"task": "shop.mail"}
    tell(service, "/api/schedules", {"name": "asked", "every": "9h", "target": target})
    page = log_in(visit, OPERATE)
    page.goto("/schedules?q=asked")
    row = page.get_by_role("row").filter(has_text="asked")
    row.get_by_role("button", name="Pause").click()
    page.get_by_role("button", name="Go back").click()
    expect(row).to_contain_text("active")
    row.get_by_role("button", name="Pause").click()
    page.get_by_role("dialog").get_by_role("button", name="Pause").click()
    expect(row).to_contain_text("paused")
    row.get_by_role("button", name="Resume").click()
    expect(row).to_contain_text("active")


def test_a_key_sees_only_the_buttons_of_its_scope(visit: BrowserContext, service: Up) -> None:
    page = log_in(visit, READ)
    for path in [*PAGES[:-1], *details(service)]:
        page.goto(path)
        assert page.locator("[data-call]:not([data-path='/logout'])").count() == 0, path
    expect(page.locator(".foot")).to_contain_text("read only")
    page.goto("/audit")
    expect(page.locator("main")).to_contain_text("This needs the scope `admin`")


def test_a_session_ends_at_the_log_out(visit: BrowserContext) -> None:
    page = log_in(visit, READ, "/queues")
    page.get_by_role("button", name="Log out").click()
    expect(page.get_by_label("Key")).to_be_visible()
    page.goto("/queues")
    expect(page.get_by_label("Key")).to_be_visible()


def test_keys_of_the_keyboard_lead_to_pages(visit: BrowserContext) -> None:
    page = log_in(visit, READ)
    with page.expect_navigation():
        page.keyboard.press("g")
        page.keyboard.press("j")
    expect(page.get_by_role("heading", name="Jobs")).to_be_visible()
    page.keyboard.press("/")
    page.keyboard.type("shop.mail")
    with page.expect_navigation():
        page.keyboard.press("Enter")
    expect(page.locator("tbody tr").first).to_contain_text("shop.mail")
    page.keyboard.press("?")
    expect(page.get_by_role("heading", name="Keys")).to_be_visible()


def test_arrow_keys_move_one_cross_over_all_plots(visit: BrowserContext) -> None:
    page = log_in(visit, READ)
    first, second = (page.locator("[data-plot]").nth(number) for number in (0, 1))
    last = int(first.get_by_role("slider").get_attribute("aria-valuemax") or 0)
    assert last == 359
    first.get_by_role("slider").focus()
    page.keyboard.press("Home")
    page.keyboard.press("ArrowRight")
    for one in (first, second):
        expect(one.get_by_role("slider")).to_have_attribute("aria-valuenow", "1")
        expect(one.locator(".readout")).to_contain_text("nothing was measured")
        expect(one.locator(".cross")).to_have_attribute("visibility", "visible")
    page.keyboard.press("Escape")
    expect(second.locator(".cross")).to_have_attribute("visibility", "hidden")
