"""The page of rules, held against the source and the tests."""

import re
from functools import cache

from docs.pages import ROOT

ROWS = re.findall(
    r"^\| (R\d+) \| (.+?) \| (.+?) \| (.+?) \|$",
    (ROOT / "docs/explain/rules.md").read_text("utf-8"),
    re.MULTILINE,
)
TESTED = ("tests", "src/onbeat/testing")


@cache
def known_tests() -> frozenset[str]:
    return frozenset(
        name
        for place in TESTED
        for file in (ROOT / place).rglob("*.py")
        for name in re.findall(
            r"^ *(?:async )?def (test_\w+)", file.read_text("utf-8"), re.MULTILINE
        )
    )


def quoted(cell: str) -> list[str]:
    return re.findall(r"`([^`]+)`", cell)


def test_every_rule_has_its_line() -> None:
    assert [rule for rule, *_ in ROWS] == [f"R{number}" for number in range(1, 25)]


def test_every_rule_lives_where_the_page_says() -> None:
    for rule, _, lives_in, _ in ROWS:
        assert quoted(lives_in), rule
        for path in quoted(lives_in):
            assert (ROOT / "src/onbeat" / path).is_file() or (ROOT / path).is_file(), (rule, path)


def test_every_test_that_the_page_names_exists() -> None:
    for rule, _, _, held_by in ROWS:
        assert quoted(held_by), rule
        assert set(quoted(held_by)) <= known_tests(), rule
