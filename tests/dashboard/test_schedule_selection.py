"""Many schedules at once, in a browser."""

import pytest
from playwright.sync_api import Browser, expect

from dashboard.conftest import ADMIN, address, tell
from interfaces.up import Up


@pytest.mark.xdist_group("browser")
def test_a_selection_outlives_a_change_that_comes_by_itself(browser: Browser, service: Up) -> None:
    body = {"name": "kept 0", "target": {"task": "shop.pulse"}, "cron": "0 0 1 1 *"}
    made = [tell(service, "/api/schedules", {**body, "name": f"kept {n}"}) for n in range(2)]
    context = browser.new_context(base_url=address(service))
    context.set_default_timeout(30_000)
    page = context.new_page()
    page.goto("/login?next=/schedules")
    page.get_by_label("Key").fill(ADMIN)
    page.get_by_role("button", name="Log in").click()
    page.wait_for_url("**/schedules")
    page.goto("/schedules?q=kept")
    page.get_by_label("Select all of this page").check()
    expect(page.get_by_role("button", name="Pause 2 schedules")).to_be_enabled()
    service.ask(
        f"/api/schedules/{made[0]['id']}/pause", {}, Authorization=f"Bearer {ADMIN}", method="POST"
    )
    expect(page.locator("tbody td").get_by_text("paused")).to_be_visible()
    expect(page.get_by_role("button", name="Pause 1 schedule")).to_be_enabled()
    expect(page.get_by_role("button", name="Resume 1 schedule")).to_be_enabled()
    context.close()


@pytest.mark.xdist_group("browser")
def test_selected_schedules_are_paused_and_resumed_once_they_were_counted(
    browser: Browser, service: Up
) -> None:
    for number in range(2):
        body = {"name": f"many {number}", "target": {"task": "shop.pulse"}, "cron": "0 0 1 1 *"}
        tell(service, "/api/schedules", body)
    context = browser.new_context(base_url=address(service))
    context.set_default_timeout(30_000)
    page = context.new_page()
    page.goto("/login?next=/schedules")
    page.get_by_label("Key").fill(ADMIN)
    page.get_by_role("button", name="Log in").click()
    page.wait_for_url("**/schedules")
    for word, next_word, status in (("Pause", "Resume", "paused"), ("Resume", "Pause", "active")):
        page.goto("/schedules?q=many")
        expect(page.get_by_role("button", name=f"{word} selected")).to_be_disabled()
        page.get_by_label("Select all of this page").check()
        page.get_by_role("button", name=f"{word} 2 schedules").click()
        dialog = page.locator("#confirm")
        expect(dialog).to_contain_text(f"{word} 2 schedules?")
        dialog.get_by_role("button", name=f"{word} 2 schedules").click()
        expect(page.locator(".toast")).to_contain_text(f"{word}d 2 schedules")
        expect(page.locator(f"input[data-schedule={status}]")).to_have_count(2)
        expect(page.get_by_role("button", name=f"{next_word} selected")).to_be_disabled()
    context.close()
