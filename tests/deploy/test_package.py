"""What a package index shows of Onbeat."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
REPOSITORY = "https://code.example/onbeat/onbeat"
LINK = re.compile(r"\]\(([^)\s]+)\)")


def metadata(repository: str) -> dict[str, Any]:
    """As a build makes it."""
    made = subprocess.run(
        [sys.executable, "-m", "hatchling", "metadata"],
        cwd=ROOT,
        env={**os.environ, "ONBEAT_REPOSITORY": repository},
        check=True,
        capture_output=True,
        text=True,
    )
    result: dict[str, Any] = json.loads(made.stdout)
    return result


def test_every_link_of_the_readme_works_outside_the_repository() -> None:
    links = LINK.findall(metadata(REPOSITORY)["readme"]["text"])
    assert len(links) > 20
    assert [link for link in links if not link.startswith("https://")] == []
    files = [link for link in links if link.startswith(f"{REPOSITORY}/blob/HEAD/")]
    assert len(files) > 20
    for link in files:
        path = link.removeprefix(f"{REPOSITORY}/blob/HEAD/").partition("#")[0]
        assert (ROOT / path).exists(), link


def test_pictures_of_the_readme_are_shown_outside_the_repository() -> None:
    text = metadata(REPOSITORY)["readme"]["text"]
    pictures = re.findall(r"!\[[^\]]+\]\(([^)\s]+)\)", text)
    assert pictures
    for link in pictures:
        # The page of a file, /blob/, would be no picture.
        assert (ROOT / link.removeprefix(f"{REPOSITORY}/raw/HEAD/")).is_file(), link
        assert link.startswith(f"{REPOSITORY}/raw/HEAD/docs/pictures/")


def test_the_addresses_of_a_release_are_those_of_its_repository() -> None:
    urls = metadata(f"{REPOSITORY}/")["urls"]
    assert urls.keys() >= {"Homepage", "Documentation", "Changelog", "Issues", "Source"}
    assert all(url.startswith(REPOSITORY) for url in urls.values())
    assert "//onbeat/onbeat/" not in "".join(urls.values())


def test_no_address_is_guessed() -> None:
    built = metadata("")
    assert "urls" not in built
    assert built["readme"]["text"] == (ROOT / "README.md").read_text("utf-8")
