"""The timeline in a browser: what the mouse does, keys and buttons do."""

import re
from datetime import UTC, datetime, timedelta

import pytest
from playwright.sync_api import Browser, expect

from dashboard.conftest import READ, address
from dashboard.test_pages import log_in
from interfaces.up import Up


@pytest.mark.xdist_group("browser")
def test_keys_focus_and_swipes_do_the_same(browser: Browser, service: Up) -> None:
    context = browser.new_context(base_url=address(service), has_touch=True)
    context.set_default_timeout(30_000)
    page = log_in(context, READ, "/timeline")
    faults: list[str] = []
    page.on("console", lambda message: faults.append(message.text))
    page.on("pageerror", lambda error: faults.append(str(error)))
    # A day that is all to come, whatever the time is now.
    page.goto(f"/timeline?day={datetime.now(UTC).date() + timedelta(days=1)}")
    page.locator(".mark").first.focus()
    expect(page.locator(".tip")).to_contain_text("planned")
    page.keyboard.press("Escape")
    expect(page.locator(".tip")).to_be_hidden()
    many = page.locator(".many").first
    many.focus()
    page.keyboard.press("ArrowRight")
    expect(many).to_have_attribute("href", re.compile(r"/jobs\?since=.*&until="))
    expect(page.locator(".tip")).to_contain_text("planned")

    page.goto("/timeline")
    today = page.locator("h1").inner_text()
    now = page.locator(".ground .now")
    before = now.get_attribute("x1") or ""
    expect(now).not_to_have_attribute("x1", before)

    with page.expect_navigation():
        page.keyboard.press("]")
    expect(page.locator("h1")).not_to_have_text(today)
    with page.expect_navigation():
        page.keyboard.press("[")
    expect(page.locator("h1")).to_have_text(today)
    with page.expect_navigation():
        page.keyboard.press("-")
    expect(page.get_by_role("link", name="Week")).to_have_attribute("aria-current", "page")
    with page.expect_navigation():
        page.keyboard.press("+")
    expect(page.locator("h1")).to_have_text(today)

    box = page.locator(".timeline .lanes").bounding_box()
    assert box is not None
    y = box["y"] + box["height"] - 40
    page.mouse.move(box["x"] + box["width"] * 0.9, y)
    page.mouse.down()
    page.mouse.move(box["x"] + box["width"] * 0.3, y, steps=4)
    with page.expect_navigation():
        page.mouse.up()
    expect(page.locator("h1")).not_to_have_text(today)
    with page.expect_navigation():
        page.keyboard.press("0")
    expect(page.locator("h1")).to_have_text(today)
    assert faults == []
    context.close()
