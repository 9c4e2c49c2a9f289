"""Whatever the pages point at is there."""

import re
from collections import Counter
from functools import cache
from itertools import pairwise
from pathlib import Path

import pytest

from docs.pages import PAGES, ROOT, name_of, prose

LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
CODE = re.compile(r"`[^`\n]*`")
TARGET = re.compile(r"^([a-z-]+):", re.MULTILINE)
PATH = re.compile(r"`((?:src|tests|docs|examples|benchmarks)/[\w./*-]+)`")


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_links_lead_somewhere(page: Path) -> None:
    links = LINK.findall(CODE.sub("", prose(page)))
    lost = [
        link for link in links if not link.startswith(("http:", "https:")) and is_lost(page, link)
    ]
    assert not lost


def is_lost(page: Path, link: str) -> bool:
    path, _, anchor = link.partition("#")
    result = (page.parent / path).resolve() if path else page
    if not result.exists() or not result.is_relative_to(ROOT):
        return True
    return bool(anchor) and anchor not in anchors(result)


@cache
def anchors(page: Path) -> frozenset[str]:
    """The names of a page's headings, as its readers' sites make them."""
    return frozenset(headings(page))


def headings(page: Path) -> list[str]:
    return [
        re.sub(r"[^\w\- ]", "", heading.lower()).strip().replace(" ", "-")
        for heading in re.findall(r"^#+ (.*)$", prose(page), re.MULTILINE)
    ]


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_no_page_has_two_equal_headings(page: Path) -> None:
    # A link to the second would lead to the first.
    met = Counter(headings(page))
    assert [heading for heading, times in met.items() if times > 1] == []


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_one_empty_line_stands_between_paragraphs(page: Path) -> None:
    lines = re.sub(r"```.*?```", "```", page.read_text("utf-8"), flags=re.DOTALL).split("\n")
    crowded = [
        after
        for before, after in pairwise(lines)
        if (before and after.startswith("#")) or (not before and not after)
    ]
    assert crowded == []


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_every_make_target_that_is_named_exists(page: Path) -> None:
    targets = set(TARGET.findall((ROOT / "Makefile").read_text()))
    named = set(re.findall(r"(?:^\$ |`)make ([a-z-]+)", page.read_text("utf-8"), re.MULTILINE))
    assert named <= targets


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_every_path_of_the_repository_that_is_named_exists(page: Path) -> None:
    lost = [path for path in PATH.findall(prose(page)) if not [*ROOT.glob(path.rstrip("/"))]]
    assert not lost


def test_every_page_can_be_found_from_the_index() -> None:
    index = ROOT / "docs" / "index.md"
    linked = {
        (index.parent / link.partition("#")[0]).resolve() for link in LINK.findall(prose(index))
    }
    lost = [
        name_of(page)
        for page in PAGES
        if page.is_relative_to(index.parent) and page != index and not {page, page.parent} & linked
    ]
    assert not lost
