"""`make pictures`: each page of the dashboard, of the demo, at three widths in both themes.

The pictures that pages of the documentation show go to `docs/pictures`, all others to `.pictures`.
Nothing in the demo is left to chance, so pictures of two days differ by their times only.
"""

import argparse
import json
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from playwright.sync_api import Browser, sync_playwright

ROOT: Final = Path(__file__).parents[1]
SIZES: Final = {390: 844, 1280: 900, 2560: 1440}
"""The height of a picture by its width, in pixels."""
THEMES: Final = ("light", "dark")
BYTES_MAX: Final = 150_000
"""Of a picture that the documentation shows."""
PATIENCE: Final = 300.0
"""Seconds until the demo has what is looked at."""
ADDRESS: Final = re.compile(r"Onbeat is running: (http://127\.0\.0\.1:\d+)/")
ARGUMENTS: Final = ("--no-sandbox", "--disable-gpu", "--disable-quic", "--hide-scrollbars")

Ask = Callable[[str], Any]


def schedule_path(ask: Ask) -> str:
    known = ask("/api/schedules?q=demo-month")["schedules"]
    return f"/schedules/{known[0]['id']}"


def failed_deployment(ask: Ask) -> dict[str, str]:
    jobs = ask("/api/jobs?queue=release&state=failed")["jobs"]
    return next(job for job in jobs if job["flow"])


PAGES: Final[dict[str, str | Callable[[Ask], str]]] = {
    "now": "/",
    "timeline": "/timeline",
    "schedules": "/schedules",
    "schedule": schedule_path,
    "jobs": "/jobs",
    "job": lambda ask: f"/jobs/{failed_deployment(ask)['id']}",
    "failures": "/failures",
    "queues": "/queues",
    "workers": "/workers",
    "flows": "/flows",
    "flow": lambda ask: f"/flows/{failed_deployment(ask)['flow']}",
    "events": "/events",
    "dead": "/dead",
    "audit": "/audit",
    "settings": "/settings",
}
"""Each page by the name of its pictures: its path, or how that is found."""

SHOWN: Final = {
    "now-1280-light": "now",
    "now-390-dark": "now-phone",
    "timeline-1280-light": "timeline",
    "schedule-1280-light": "schedule",
    "job-1280-light": "job",
    "flow-1280-dark": "flow",
    "failures-1280-light": "failures",
    "queues-1280-light": "queues",
}
"""Which pictures the documentation shows, and the names that it has for them."""


@contextmanager
def demo() -> Iterator[str]:
    """The address of a demo in which things have gone wrong, until the end of the block.

    It is a copy: tracebacks name its files, and pictures should not show where this file is.
    """
    with tempfile.TemporaryDirectory(prefix="demo-") as folder:
        program = shutil.copytree(ROOT / "examples" / "demo", Path(folder, "shop")) / "run.py"
        log = Path(folder, "log")
        with log.open("wb") as sink:
            process = subprocess.Popen(
                [sys.executable, str(program)], cwd=folder, stdout=sink, stderr=sink
            )
        try:
            found = until(lambda: ADDRESS.search(log.read_text()))
            until(lambda: is_full(found[1]))
            yield found[1]
        finally:
            process.send_signal(signal.SIGTERM)
            process.wait()


def is_full(base: str) -> bool:
    """Whether a release has been rolled back, and mails have failed for two reasons."""
    ask = asker(base)
    release = ask("/api/jobs?queue=release&limit=100")["jobs"]
    ended = any(job["state"] == "succeeded" and job["name"] == "roll back" for job in release)
    return ended and len(ask("/api/jobs?queue=mail&state=failed")["jobs"]) >= 2


def until(condition: Callable[[], Any]) -> Any:
    give_up = time.monotonic() + PATIENCE
    while not (answer := condition()):
        if time.monotonic() > give_up:
            sys.exit(f"the demo was not ready within {PATIENCE:.0f} s")
        time.sleep(0.5)
    return answer


def asker(base: str) -> Ask:
    def ask(path: str) -> Any:
        with urllib.request.urlopen(base + path, timeout=30) as answer:
            return json.load(answer)

    return ask


def path_of(name: str, ask: Ask) -> str | None:
    """The path of a page, or None where there is nothing to show."""
    path = PAGES[name]
    if isinstance(path, str):
        return path
    try:
        return path(ask)
    except (IndexError, StopIteration):
        return None


def take(browser: Browser, base: str, names: list[str], folder: Path, shown: Path) -> None:
    paths = {name: path_of(name, asker(base)) for name in names}
    for width, height in SIZES.items():
        for theme in THEMES:
            context = browser.new_context(
                viewport={"width": width, "height": height},
                color_scheme="dark" if theme == "dark" else "light",
                timezone_id="Europe/Berlin",
                reduced_motion="reduce",
            )
            page = context.new_page()
            for name, path in list(paths.items()):
                answer = page.goto(base + path) if path else None
                if answer is None or answer.status != 200:
                    print(f"{name} is left out: there is no {path or 'such thing'}")
                    del paths[name]
                    continue
                picture = f"{name}-{width}-{theme}"
                target = shown / f"{SHOWN[picture]}.png" if picture in SHOWN else None
                save(page.screenshot(), target or folder / f"{picture}.png", bounded=bool(target))
            context.close()


def save(picture: bytes, file: Path, *, bounded: bool) -> None:
    if bounded and len(picture) > BYTES_MAX:
        sys.exit(
            f"{file} has {len(picture):,} bytes; the documentation shows {BYTES_MAX:,} at most"
        )
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(picture)


def chromium() -> str:
    path = shutil.which("chromium") or shutil.which("chromium-browser")
    return path or sys.exit("pictures need Chromium: apt-get install chromium")


def main() -> None:
    parser = argparse.ArgumentParser(description="Takes pictures of the dashboard.")
    parser.add_argument("pages", nargs="*", metavar="PAGE", help=", ".join(PAGES))
    parser.add_argument("--base", help="address of a service that runs, in the place of the demo")
    parser.add_argument("--to", type=Path, default=ROOT / ".pictures", help="folder")
    parser.add_argument("--shown", type=Path, default=ROOT / "docs" / "pictures", help="folder")
    given = parser.parse_args()
    if unknown := set(given.pages) - set(PAGES):
        parser.error(f"no such page: {', '.join(sorted(unknown))}; known are {', '.join(PAGES)}")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium(), args=list(ARGUMENTS))
        names = given.pages or list(PAGES)
        if given.base:
            take(browser, given.base, names, given.to, given.shown)
        else:
            with demo() as base:
                take(browser, base, names, given.to, given.shown)
        browser.close()


if __name__ == "__main__":
    main()
