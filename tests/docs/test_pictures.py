"""`make pictures`: the script takes those of a page, and says what it leaves out."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from docs.pages import PAGES, ROOT
from docs.services import service

SCRIPT = ROOT / "docs" / "pictures.py"
PICTURES = ROOT / "docs" / "pictures"
PNG = b"\x89PNG\r\n\x1a\n"
BYTES_MAX = 150_000
IMAGE = re.compile(r"!\[([^\]]*)\]\(([^)\s]+)\)")


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, str(SCRIPT), *arguments],
        capture_output=True,
        text=True,
        timeout=200,
        check=False,
    )


@pytest.mark.usefixtures("only_demo")
def test_a_page_has_pictures_at_each_width_in_both_themes(tmp_path: Path) -> None:
    rest, shown = tmp_path / "rest", tmp_path / "shown"
    folders = ["--to", str(rest), "--shown", str(shown)]
    with service(tmp_path) as port:
        done = run("now", "flow", "--base", f"http://127.0.0.1:{port}", *folders)
    assert done.returncode == 0, done.stderr
    assert done.stdout == "flow is left out: there is no such thing\n"
    assert {file.name for file in shown.iterdir()} == {"now.png", "now-phone.png"}
    assert {file.name for file in rest.iterdir()} == {
        "now-390-light.png", "now-1280-dark.png", "now-2560-light.png", "now-2560-dark.png"
    }  # fmt: skip
    assert all(file.read_bytes().startswith(PNG) for file in [*rest.iterdir(), *shown.iterdir()])


def test_a_page_that_is_not_known_is_refused() -> None:
    refused = run("nonsense")
    assert refused.returncode == 2
    assert "no such page: nonsense; known are now, timeline," in refused.stderr


@pytest.mark.parametrize("picture", sorted(PICTURES.glob("*.png")), ids=lambda file: file.name)
def test_a_picture_is_small_and_shown_somewhere(picture: Path) -> None:
    assert picture.stat().st_size <= BYTES_MAX
    assert any(f"pictures/{picture.name})" in page.read_text("utf-8") for page in PAGES)


def test_pictures_are_described_in_words() -> None:
    for page in PAGES:
        for words, path in IMAGE.findall(page.read_text("utf-8")):
            assert len(words.split()) >= 3, f"{page}: {path}"
