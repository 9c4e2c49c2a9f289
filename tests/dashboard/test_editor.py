"""The editor of schedules in a real browser: its preview, and what can be taken back."""

import re
from collections.abc import Iterator
from typing import Any

import pytest
from playwright.sync_api import Browser, BrowserContext, Error, Page, Route, expect

from dashboard.conftest import ADMIN, address, tell
from dashboard.test_pages import log_in, watch
from far_hour import FAR_HOUR
from interfaces.up import Up

pytestmark = pytest.mark.xdist_group("browser")

NIGHTLY = f"30 {FAR_HOUR} * * *"


@pytest.fixture(scope="module")
def context(browser: Browser, service: Up) -> Iterator[BrowserContext]:
    context = browser.new_context(base_url=address(service), timezone_id="Asia/Kolkata")
    context.set_default_timeout(30_000)
    yield context
    context.close()


@pytest.fixture(scope="module")
def page(context: BrowserContext) -> Page:
    return log_in(context, ADMIN)


def made(service: Up, **fields: Any) -> str:
    body = {"name": "Digest", "cron": NIGHTLY, "timezone": "Europe/Berlin"}
    target = {"target": {"task": "shop.ledger"}}
    answer: Any = tell(service, "/api/schedules", {**body, **target, **fields})
    return str(answer["id"])


def shown(service: Up, id: str) -> Any:
    return service.ask(f"/api/schedules/{id}", Authorization=f"Bearer {ADMIN}")[1]


def preview(page: Page) -> Any:
    return page.locator("#preview")


def test_preview_follows_typing_and_latest_wins(page: Page, service: Up) -> None:
    faults = watch(page, service)
    page.goto("/schedules/new")
    held: list[Route] = []

    def hold_first(route: Route) -> None:
        if "0+4" in (route.request.post_data or ""):
            held.append(route)
        else:
            route.continue_()

    page.route("**/schedules/new", hold_first)
    rule = page.get_by_label("When it runs")
    with page.expect_request(lambda request: "0+4" in (request.post_data or "")):
        rule.fill("0 4 * * *")
    rule.fill("0 5 * * *")
    expect(preview(page)).to_contain_text("At 05:00 every day")
    for route in held:
        try:
            route.continue_()
        except Error:
            continue  # the page has given it up
    rule.press("End")
    page.evaluate("() => new Promise((done) => setTimeout(done, 0))")
    expect(preview(page)).to_contain_text("At 05:00 every day")
    page.unroute("**/schedules/new")
    assert faults == []


def test_what_is_typed_stays_while_the_preview_changes(page: Page) -> None:
    page.goto("/schedules/new")
    page.get_by_label("Name", exact=True).fill("Weekly")
    rule = page.get_by_label("When it runs")
    rule.fill("0 4 * *")
    expect(page.locator("#fault-rule")).to_contain_text("cron has 5")
    expect(rule).to_have_attribute("aria-invalid", "true")
    rule.press_sequentially(" MON")
    expect(preview(page)).to_contain_text("At 04:00 on Monday")
    expect(page.locator("#fault-rule")).to_be_empty()
    expect(rule).to_be_focused()
    expect(page.get_by_label("Name", exact=True)).to_have_value("Weekly")
    page.get_by_label("Runs", exact=True).select_option("http")
    expect(page.get_by_label("URL")).to_be_visible()
    expect(page.get_by_label("Task", exact=True)).to_be_hidden()


def test_a_first_fault_has_the_focus(page: Page) -> None:
    page.goto("/schedules/new")
    page.get_by_label("Name", exact=True).fill("Weekly")
    page.get_by_label("When it runs").fill("0 4 * * *")
    page.get_by_label("Task", exact=True).fill("shop.ledger")
    page.get_by_label("Named arguments").fill("{")
    page.get_by_role("button", name="Save").click()
    expect(page.get_by_label("Named arguments")).to_be_focused()
    expect(page.get_by_label("Name", exact=True)).to_have_value("Weekly")


def test_edit_tells_what_it_changes_before_saving(page: Page, service: Up) -> None:
    after = f"0 {FAR_HOUR + 1} * * *"
    id = made(service)
    page.goto(f"/schedules/{id}/edit")
    expect(preview(page)).to_contain_text("Nothing yet.")
    page.get_by_label("When it runs").fill(after)
    expect(preview(page)).to_contain_text("This edit cancels 1 waiting job and plans 1.")
    expect(preview(page)).to_contain_text("The next run moves from")
    assert shown(service, id)["cron"] == NIGHTLY
    page.get_by_role("button", name="Save").click()
    page.wait_for_url(re.compile(rf"/schedules/{id}$"))
    assert shown(service, id)["cron"] == after


def test_backfill_is_counted_first(page: Page, service: Up) -> None:
    id = made(service)
    page.goto(f"/schedules/{id}")
    page.get_by_role("link", name="Backfill").click()
    page.get_by_label("From", exact=True).fill("2026-02-01T00:00:00Z")
    page.get_by_label("To", exact=True).fill("2026-02-04T00:00:00Z")
    expect(preview(page)).to_contain_text("3 jobs, 0 exist already")
    page.get_by_role("button", name="Run 3").click()
    page.wait_for_url(re.compile(rf"/schedules/{id}$"))
    expect(page.get_by_role("region", name="Occurrences").locator("tbody tr")).to_have_count(4)


def test_pause_can_be_undone(page: Page, service: Up) -> None:
    id = made(service)
    page.goto(f"/schedules/{id}")
    page.get_by_role("button", name="Pause").click()
    page.locator("#confirm").get_by_role("button", name="Pause").click()
    page.get_by_role("button", name="Resume").click()
    expect(page.get_by_role("button", name="Pause")).to_be_visible()
    assert shown(service, id)["status"] == "active"
    assert shown(service, id)["next_at"] is not None


def test_both_zones_stand_side_by_side(page: Page, service: Up) -> None:
    id = made(service, cron="30 2 * * *")
    for path in (f"/schedules/{id}", f"/schedules/{id}/edit"):
        page.goto(path)
        expect(page.locator("main")).to_contain_text(", then Europe/Berlin")
        expect(page.locator("main")).to_contain_text(re.compile(r"02:30:00 CES?T"))
        expect(page.locator("main")).to_contain_text(re.compile(r"0[67]:00"))
    page.goto(f"/schedules/{id}")
    head = page.get_by_role("region", name="Occurrences").locator("thead")
    expect(head).to_contain_text("Asia/Calcutta")
    expect(head).to_contain_text("Europe/Berlin")


def test_escape_gives_up_limits_that_were_typed(page: Page, service: Up) -> None:
    tell(service, "/api/jobs", {"task": "shop.mail", "queue": "editor", "delay": "1h"})
    page.goto("/queues")
    row = page.locator("tr", has=page.get_by_role("link", name="editor"))
    row.get_by_text("Change").click()
    at_once = row.get_by_label("at once", exact=True)
    at_once.fill("7")
    at_once.press("Escape")
    expect(at_once).to_be_hidden()
    row.get_by_text("Change").click()
    expect(at_once).to_have_value("")
    at_once.fill("7")
    at_once.press("Enter")
    expect(row).to_contain_text("7 at once")
