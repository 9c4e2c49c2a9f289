"""That the change that CONTRIBUTING shows still fits the source."""

import re
from collections.abc import Iterator

import pytest

from docs.pages import ROOT, blocks

PAGE = ROOT / "CONTRIBUTING.md"


def hunks() -> Iterator[tuple[str, str]]:
    """Each file of the change, with a run of lines as they stand before it."""
    (block,) = blocks(PAGE, "diff")
    for part in re.split(r"^--- ", block.text, flags=re.MULTILINE)[1:]:
        file, _, text = part.partition("\n")
        for hunk in re.split(r"^@@ .*\n", text, flags=re.MULTILINE)[1:]:
            yield file, "".join(re.findall(r"^[ -](.*\n)", hunk, re.MULTILINE))


def test_the_page_shows_a_change() -> None:
    assert len({file for file, _ in hunks()}) == 8


@pytest.mark.parametrize(("file", "before"), [*hunks()])
def test_the_change_fits_the_source(file: str, before: str) -> None:
    assert before in (ROOT / file).read_text("utf-8")
