"""Bulks, undo, keys and the palette, in a real browser."""

import re
from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, BrowserContext, Page, expect

from conditions import eventually_here
from dashboard.conftest import ADMIN, OPERATE, READ, address, jobs, tell
from dashboard.test_pages import log_in
from interfaces.up import Up

pytestmark = pytest.mark.xdist_group("browser")


@pytest.fixture
def visit(browser: Browser, service: Up) -> Iterator[BrowserContext]:
    context = browser.new_context(base_url=address(service))
    context.set_default_timeout(30_000)
    yield context
    context.close()


def later(service: Up, count: int, queue: str) -> None:
    body = {"task": "shop.mail", "kwargs": {"to": "a"}, "delay": "1h", "queue": queue}
    tell(service, "/api/jobs", {"jobs": [body] * count})


def waiting(service: Up, queue: str) -> int:
    return len([job for job in jobs(service, "waiting&limit=1000") if job["queue"] == queue])


def test_bulk_counts_waits_for_undo_and_is_audited(visit: BrowserContext, service: Up) -> None:
    later(service, 120, "many")
    page = log_in(visit, OPERATE, "/jobs?queue=many")
    page.get_by_role("button", name="Cancel all that match").click()
    dialog = page.get_by_role("dialog")
    expect(dialog).to_contain_text("120 waiting jobs.")
    dialog.get_by_role("button", name="Cancel 120 waiting jobs").click()
    panel = page.locator("[data-follows]")
    panel.get_by_role("button", name="Undo").click()
    expect(page.locator(".toast")).to_contain_text("Stopped")
    assert waiting(service, "many") == 120
    headers = {"Authorization": f"Bearer {ADMIN}"}
    records = service.ask("/api/audit?action=job.bulk", **headers)[1]["records"]
    assert records[0]["outcome"] == "stopped"


def test_selected_jobs_are_cancelled_by_keyboard_alone(visit: BrowserContext, service: Up) -> None:
    later(service, 3, "few")
    page = log_in(visit, OPERATE, "/jobs?queue=few")
    for key in ("j", "x", "j", "x", "c"):
        page.keyboard.press(key)
    dialog = page.get_by_role("dialog")
    expect(dialog).to_contain_text("2 waiting jobs.")
    dialog.get_by_role("button", name="Cancel 2 waiting jobs").press("Enter")
    eventually_here(lambda: waiting(service, "few") == 1, "two are cancelled")


def test_a_cancelled_job_is_taken_back(visit: BrowserContext, service: Up) -> None:
    later(service, 1, "undo")
    (id,) = (job["id"] for job in jobs(service, "waiting&queue=undo"))
    page = log_in(visit, OPERATE, f"/jobs/{id}")
    page.get_by_role("button", name="Cancel").click()
    toast = page.locator(".toast")
    expect(toast).to_contain_text("Cancelled")
    toast.get_by_role("button", name="Undo").click()
    expect(toast).to_have_text("Taken back")
    assert [job["id"] for job in jobs(service, "cancelled&queue=undo")] == []


def palette(page: Page, text: str) -> None:
    page.keyboard.press("Control+k")
    page.locator("#palette").get_by_role("combobox").fill(text)


def test_the_palette_leads_anywhere(visit: BrowserContext) -> None:
    page = log_in(visit, READ)
    palette(page, "shop.charge")
    expect(page.locator("#palette").get_by_role("option", selected=True)).to_contain_text(
        "shop.charge"
    )
    page.keyboard.press("Enter")
    page.wait_for_url(re.compile("task=shop.charge"))
    palette(page, "Nightly")
    expect(page.locator("#palette").get_by_role("option", selected=True)).to_contain_text("Nightly")
    page.keyboard.press("Escape")
    expect(page.locator("#palette")).to_be_hidden()
    page.keyboard.press(":")
    expect(page.locator("#palette").get_by_role("combobox")).to_be_focused()


def test_single_keys_can_be_switched_off(visit: BrowserContext) -> None:
    page = log_in(visit, READ, "/help")
    page.get_by_role("button", name="Switch single keys off").click()
    page.keyboard.press(":")
    expect(page.locator("#palette")).to_be_hidden()
    page.get_by_role("button", name="Switch single keys on").click()
    page.keyboard.press(":")
    expect(page.locator("#palette")).to_be_visible()


def test_all_that_match_get_another_due_time(visit: BrowserContext, service: Up) -> None:
    later(service, 2, "put-off")
    page = log_in(visit, OPERATE, "/jobs?queue=put-off")
    page.get_by_role("button", name="Reschedule all that match").click()
    dialog = page.get_by_role("dialog")
    act = dialog.get_by_role("button", name="Reschedule 2 waiting jobs")
    expect(act).to_be_disabled()
    dialog.get_by_label("Due at, or so long from now").fill("2031-01-01T00:00:00Z")
    act.click()
    # Of the bulk while it goes on, then of the jobs.
    expect(page.locator("main")).to_contain_text("1 Jan 2031")
    due = {"2031-01-01T00:00:00Z"}
    eventually_here(
        lambda: {job["run_at"] for job in jobs(service, "waiting&queue=put-off")} == due,
        "both are put off",
    )


def test_a_pick_is_written_into_the_line_of_search(visit: BrowserContext, service: Up) -> None:
    later(service, 1, "picked")
    page = log_in(visit, READ, "/jobs?state=waiting&queue=picked")
    line = page.get_by_label("Search", exact=True)
    expect(line).to_have_value("state:waiting queue:picked")
    page.locator("[data-pick=task]").select_option("shop.mail")
    expect(line).to_have_value("state:waiting queue:picked task:shop.mail")
    page.locator("[data-pick=queue]").select_option("any queue")
    expect(line).to_have_value("state:waiting task:shop.mail")
    page.get_by_role("button", name="Search", exact=True).click()
    page.wait_for_url("**/jobs?state=waiting&task=shop.mail")
