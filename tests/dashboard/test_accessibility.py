"""What axe-core finds on every page, in both themes, on a phone and on a desktop."""

import subprocess
import tarfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, Page

from dashboard.conftest import ADMIN, address, details
from interfaces.up import Up

pytestmark = pytest.mark.xdist_group("browser")

AXE = "axe-core@4.14.1"
TAGS = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"]
PATHS = [
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
PATHS += ["/schedules/new", "/jobs/new"]
RUN = """async (tags) => {
    const found = await axe.run(document, { runOnly: { type: "tag", values: tags } });
    return found.violations.map((one) => `${one.id}: ${one.nodes.map((n) => n.html).join(" | ")}`);
}"""


@pytest.fixture(scope="module")
def axe(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The script of the checker, which is never part of the repository."""
    folder = tmp_path_factory.mktemp("axe")
    command = ["npm", "pack", AXE, "--silent", "--pack-destination", str(folder)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, f"npm cannot fetch {AXE}: {done.stderr}"
    return read_script(folder / done.stdout.strip())


def read_script(archive: Path) -> str:
    with tarfile.open(archive) as packed:
        script = packed.extractfile("package/axe.min.js")
        assert script is not None
        return script.read().decode()


@pytest.fixture(scope="module", params=[("light", 390), ("dark", 1280)], ids=["phone", "desktop"])
def page(request: Any, browser: Browser, service: Up, axe: str) -> Iterator[Page]:
    """Logged in. The policy of the pages is off here only, as it would refuse the checker."""
    theme, width = request.param
    context = browser.new_context(
        base_url=address(service),
        viewport={"width": width, "height": 844},
        color_scheme=theme,
        bypass_csp=True,
    )
    context.add_init_script(axe)
    page = context.new_page()
    page.goto("/login")
    assert page.evaluate(RUN, TAGS) == []
    page.get_by_label("Key").fill(ADMIN)
    page.get_by_role("button", name="Log in").click()
    page.wait_for_url(address(service) + "/")
    yield page
    context.close()


def test_axe_finds_nothing(page: Page, service: Up) -> None:
    found: dict[str, Any] = {}
    others = details(service)
    schedule = next(path for path in others if path.startswith("/schedules/"))
    forms = [f"{schedule}/edit", f"{schedule}/backfill"]
    for path in [*PATHS, *others, *forms, "/help", "/jobs?color=red"]:
        page.goto(path)
        found[path] = page.evaluate(RUN, TAGS)
    assert {path: one for path, one in found.items() if one} == {}


def test_the_other_theme_has_contrast_too(page: Page, service: Up) -> None:
    was_dark = page.evaluate("matchMedia('(prefers-color-scheme: dark)').matches")
    page.emulate_media(color_scheme="light" if was_dark else "dark")
    for path in ["/", "/jobs", details(service)[0], "/jobs?color=red"]:
        page.goto(path)
        assert page.evaluate(RUN, TAGS) == [], path


def test_every_page_has_one_first_heading(page: Page, service: Up) -> None:
    for path in [*PATHS, *details(service), "/help", "/jobs?color=red"]:
        page.goto(path)
        assert page.locator("h1").count() == 1, path
        assert page.locator("main").count() == 1, path
