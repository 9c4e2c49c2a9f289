"""Every page on the narrowest screen, with twice the text, and with wide spacing: nothing is lost."""

import asyncio
import threading
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page

from dashboard.conftest import ADMIN, address, details, tell
from dashboard.test_pages import log_in
from interfaces.up import Up
from onbeat.dashboard.routes import PAGES
from onbeat.stores.sqlite.store import SqliteStore
from onbeat.testing.store_contract.dead_letters import a_dead_letter

pytestmark = pytest.mark.xdist_group("browser")

NARROW, WIDE = 320, 1_280
LETTER = a_dead_letter(reason="not JSON: " + "x" * 300)

SPACING = """
    * { line-height: 1.5 !important; letter-spacing: .12em !important;
        word-spacing: .16em !important }
    p { margin-bottom: 2em !important }
"""
"""What a reader may set by WCAG 2.2, 1.4.12."""

DOUBLE = """() => {
    const all = [...document.querySelectorAll("body, body *")];
    const sizes = all.map((one) => parseFloat(getComputedStyle(one).fontSize));
    all.forEach((one, at) => { one.style.fontSize = `${sizes[at] * 2}px` });
}"""

LOST = """() => {
    const seen = (one) => one.checkVisibility() && one.closest(".hidden, svg, select") === null;
    const clips = (style) => ["hidden", "clip"].some((word) => style.overflow.includes(word));
    const found = document.documentElement.scrollWidth > innerWidth ? ["the page scrolls"] : [];
    for (const one of document.querySelectorAll("body *")) {
        const more = one.scrollWidth > one.clientWidth + 1 || one.scrollHeight > one.clientHeight + 1;
        if (more && seen(one) && one.textContent.trim() !== "" && clips(getComputedStyle(one)))
            found.push(one.outerHTML.slice(0, 200));
    }
    return found;
}"""
"""Sideways scroll, and text that is cut; what scrolls in a box of its own is reached there."""


@pytest.fixture(scope="module")
def paths(service: Up) -> dict[str, str]:
    """The address of each page, by its route, with something on it."""
    tell(service, "/api/silences", {"match": "failing:*", "for": "1h", "note": "n" * 200})
    bury(service.log.parent)
    known = {path: path for path in PAGES if "{" not in path}
    for path in details(service):
        known[f"/{path.split('/')[1]}/{{id}}"] = path
    schedule = known["/schedules/{id}"]
    return known | {
        "/failures/{fault}": known["/failures/{id}"],
        "/events/{id:path}": known["/events/{id}"],
        "/queues/{name}": "/queues/default",
        "/dead/{id}": f"/dead/{LETTER.id}",
        "/schedules/{id}/edit": f"{schedule}/edit",
        "/schedules/{id}/backfill": f"{schedule}/backfill",
    }


def bury(folder: Path) -> None:
    """A dead letter, by a second process' store; the loop of the browser has this thread."""

    async def write() -> None:
        store = SqliteStore(str(folder / "onbeat.db"))
        await store.open()
        await store.add_dead_letters([LETTER])
        await store.close()

    thread = threading.Thread(target=lambda: asyncio.run(write()))
    thread.start()
    thread.join()


@pytest.fixture(scope="module")
def page(browser: Browser, service: Up) -> Iterator[Page]:
    """Logged in. The policy of the pages is off here only, as it would refuse a reader's styles."""
    context = browser.new_context(base_url=address(service), bypass_csp=True)
    yield log_in(context, ADMIN)
    context.close()


def test_the_fields_of_a_silence_stand_side_by_side(page: Page) -> None:
    page.set_viewport_size({"width": WIDE, "height": 800})
    page.goto("/alerts")
    page.get_by_text("Keep alerts quiet for a time").click()
    boxes = [one.bounding_box() for one in page.locator(".window input:visible").all()]
    spans = [(box["x"], box["x"] + box["width"]) for box in boxes if box is not None]
    assert len(spans) == 5
    assert all(end <= begin for (_, end), (begin, _) in pairwise(spans))


@pytest.mark.parametrize("route", PAGES)
def test_no_page_loses_anything(page: Page, paths: dict[str, str], route: str) -> None:
    lost: dict[str, list[str]] = {}
    page.set_viewport_size({"width": NARROW, "height": 640})
    answer = page.goto(paths[route])
    assert answer is not None
    assert answer.status == 200
    for one in page.locator("details:not(.menu, .more)").all():
        one.evaluate("(one) => { one.open = true }")
    lost["narrow"] = page.evaluate(LOST)
    page.add_style_tag(content=SPACING)
    lost["narrow, wide spacing"] = page.evaluate(LOST)
    page.set_viewport_size({"width": WIDE, "height": 800})
    lost["wide spacing"] = page.evaluate(LOST)
    page.reload()
    page.evaluate(DOUBLE)
    lost["twice the text"] = page.evaluate(LOST)
    assert {how: found for how, found in lost.items() if found} == {}
