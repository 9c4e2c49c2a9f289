"""Pages that move by themselves, in a browser."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, BrowserContext, Page, expect

from conditions import eventually_here
from dashboard.conftest import address
from interfaces.up import Up, up

pytestmark = pytest.mark.xdist_group("browser")

PATIENCE = 60_000  # milliseconds
MOVING = "() => document.getElementById('live').dataset.state === 'live'"


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Up]:
    """A service without keys or tasks, so that jobs wait."""
    with up(tmp_path_factory.mktemp("live")) as service:
        yield service


@pytest.fixture
def context(plain: Up, browser: Browser) -> Iterator[BrowserContext]:
    context = browser.new_context(timezone_id="Etc/UTC", base_url=address(plain))
    context.add_cookies([{"name": "onbeat-zone", "value": "Etc%2FUTC", "url": address(plain)}])
    context.set_default_timeout(PATIENCE)
    yield context
    context.close()


def send(service: Up, count: int = 1, **fields: Any) -> list[str]:
    jobs = [{"task": "mail", "delay": "1h", **fields} for _ in range(count)]
    status, answer = service.ask("/api/jobs", {"jobs": jobs})
    assert status == 201, answer
    ids: list[str] = answer["ids"]
    return ids


def opened(context: BrowserContext, path: str) -> Page:
    """The page, once it moves; a reload would take the mark away."""
    page = context.new_page()
    page.goto(path)
    page.evaluate("window.mark = 1")
    return page


def has_moved_alone(page: Page) -> bool:
    return bool(page.evaluate("window.mark === 1"))


def streams(context: BrowserContext) -> list[str]:
    seen: list[str] = []
    context.on("request", lambda one: seen.append(one.url) if "/api/stream" in one.url else None)
    return seen


def test_counts_move_without_a_reload(plain: Up, context: BrowserContext) -> None:
    send(plain, queue="counted")
    page = opened(context, "/queues")
    row = page.locator("tr", has_text="counted")
    waiting = row.locator("td").nth(3)
    expect(waiting).to_have_text("1")
    send(plain, 2, queue="counted")
    expect(waiting).to_have_text("3", timeout=PATIENCE)
    send(plain, queue="another")
    expect(page.locator("tr", has_text="another")).to_have_count(1, timeout=PATIENCE)
    assert has_moved_alone(page)


def test_nothing_moves_under_the_pointer(plain: Up, context: BrowserContext) -> None:
    (id,) = send(plain, queue="pointed")
    page = opened(context, "/jobs?queue=pointed")
    row = page.locator("tbody tr").first
    row.hover()
    place = row.bounding_box()
    send(plain, 2, queue="pointed")
    news = page.locator("#news")
    expect(news).to_have_text("2 new · show", timeout=PATIENCE)
    plain.ask(f"/api/jobs/{id}/cancel", {})
    expect(row).to_contain_text("cancelled", timeout=PATIENCE)
    assert row.bounding_box() == place
    assert page.locator("tbody tr").count() == 1
    news.click()
    expect(page.locator("tbody tr")).to_have_count(3)
    expect(news).to_have_count(0)
    assert page.locator("tbody tr").last.get_by_role("link").first.get_attribute("href") == (
        f"/jobs/{id}"
    )
    assert has_moved_alone(page)


def test_a_page_stands_still_while_it_is_paused(plain: Up, context: BrowserContext) -> None:
    send(plain, queue="still")
    page = opened(context, "/jobs?queue=still")
    state = page.locator("#live")
    expect(state).to_have_text("live")
    page.keyboard.press("l")
    expect(state).to_have_text("paused")
    other = opened(context, "/jobs?queue=still")
    other.keyboard.press("l")
    expect(other.locator("#live")).to_have_text("paused")
    other.keyboard.press("l")
    send(plain, queue="still")
    expect(other.locator("tbody tr")).to_have_count(2, timeout=PATIENCE)
    assert page.locator("tbody tr").count() == 1
    page.keyboard.press("l")
    expect(page.locator("tbody tr")).to_have_count(2, timeout=PATIENCE)


def test_what_somebody_does_survives_an_update(plain: Up, context: BrowserContext) -> None:
    page = opened(context, "/queues")
    page.wait_for_function(MOVING)
    left = page.evaluate(
        """async () => {
          const script = [...document.scripts].find((one) => one.src.endsWith("/live.js")).src;
          const { morph, parse } = await import(script.replace("live.js", "morph.js"));
          const old = parse(`<section><p id="text">old words</p><input id="typed" value="a">
            <input id="plain" value="a"><input id="ticked" type="checkbox"><details id="more"><summary>m</summary>x</details>
            <select id="chosen"><option selected>1</option><option>2</option></select>
            <div id="long"><p>1</p></div><button id="act" data-call="POST">Pause</button><i id="gone">x</i></section>`);
          document.querySelector("main").append(old);
          const of = (id) => old.querySelector("#" + id);
          of("typed").focus();
          of("typed").value = "typed";
          of("typed").setSelectionRange(2, 4);
          of("ticked").checked = true;
          of("more").open = true;
          of("chosen").value = "2";
          const typed = of("typed");
          const fresh = parse(`<section title="new"><p id="text">new words</p><input id="typed" value="b" class="c">
            <input id="plain" value="b"><input id="ticked" type="checkbox"><details id="more"><summary>n</summary>y</details>
            <select id="chosen"><option selected>1</option><option>2</option></select>
            <div id="long"><p>1</p></div><button id="act" data-call="DELETE">Resume</button><b id="come">y</b></section>`);
          const held = morph(old, fresh, true);
          const during = [of("gone") !== null, of("come") === null];
          const after = morph(old, fresh, false);
          return {
            held, after, during, text: of("text").textContent, title: old.title, same: of("typed") === typed,
            typed: typed.value, place: [typed.selectionStart, typed.selectionEnd], focus: document.activeElement === typed,
            plain: of("plain").value, ticked: of("ticked").checked, open: of("more").open, inside: of("more").lastChild.data,
            chosen: of("chosen").value, act: of("act").dataset.call, gone: of("gone") === null, come: of("come") !== null,
          };
        }"""
    )
    assert left == {
        "held": {"fresh": 0, "other": 2},
        "after": {"fresh": 0, "other": 0},
        "during": [True, True],
        "text": "new words",
        "title": "new",
        "same": True,
        "typed": "typed",
        "place": [2, 4],
        "focus": True,
        "plain": "b",
        "ticked": True,
        "open": True,
        "inside": "y",
        "chosen": "2",
        "act": "DELETE",
        "gone": True,
        "come": True,
    }


def test_eight_tabs_share_one_stream(plain: Up, context: BrowserContext) -> None:
    send(plain, queue="shared")
    seen = streams(context)
    pages = [opened(context, "/jobs?queue=shared") for _ in range(8)]
    pages[0].wait_for_function(MOVING)
    send(plain, queue="shared")
    for page in pages:
        expect(page.locator("tbody tr")).to_have_count(2, timeout=PATIENCE)
        assert has_moved_alone(page)
    assert len(seen) == 1
    # The next tab reads where the first one stopped.
    pages[0].close()
    eventually_here(lambda: pages[1].evaluate("1") and len(seen) == 2, "another tab reads")
    assert "after=" in seen[1]
    send(plain, queue="shared")
    for page in pages[1:]:
        expect(page.locator("tbody tr")).to_have_count(3, timeout=PATIENCE)


def test_without_a_stream_the_page_asks_from_time_to_time(
    plain: Up, context: BrowserContext
) -> None:
    send(plain, queue="asked")
    context.route("**/api/stream*", lambda route: route.fulfill(status=429))
    page = opened(context, "/jobs?queue=asked")
    expect(page.locator("#live")).to_have_text("asks every 5 s")
    send(plain, queue="asked")
    expect(page.locator("tbody tr")).to_have_count(2, timeout=PATIENCE)


def test_a_stream_that_is_lost_comes_back(
    browser: Browser, tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder: Path = tmp_path_factory.mktemp("lost")
    with up(folder) as service:
        context = browser.new_context(base_url=address(service), timezone_id="Etc/UTC")
        context.add_cookies([{"name": "onbeat-zone", "value": "UTC", "url": address(service)}])
        context.set_default_timeout(PATIENCE)
        page = opened(context, "/jobs")
        state = page.locator("#live")
        expect(state).to_have_text("live")
        page.wait_for_function("performance.getEntriesByType('resource').length > 0")
        _, port = service.address
        service.process.terminate()
        expect(state).to_contain_text("lost, trying in", timeout=PATIENCE)
    with up(folder, "--port", str(port)) as again:
        send(again)
        expect(state).to_have_text("live", timeout=PATIENCE)
        expect(page.locator("tbody tr")).to_have_count(1, timeout=PATIENCE)
        assert has_moved_alone(page)
        context.close()
