"""The table of threats names tests that exist, and the page says what the table says."""

import ast
from pathlib import Path

import pytest

from security.rows import ROWS, Row, page
from syntax import syntax_of

TESTS = Path(__file__).parents[1]
WANTED = (
    *(f"H{number}" for number in range(1, 14)),
    *("C1", "C2", "C3", "C9"),
    *("K1", "K2", "K5", "K6", "K7", "K8", "K9", "K13"),
    *("D2", "D3", "D4", "D9", "D10"),
)


def names_in(path: Path) -> list[str]:
    tree = syntax_of(path.read_text())
    kinds = (ast.FunctionDef, ast.AsyncFunctionDef)
    return [
        node.name
        for node in ast.walk(tree)
        if isinstance(node, kinds) and node.name.startswith("test_")
    ]


def test_no_row_is_missing() -> None:
    assert tuple(row.name for row in ROWS) == WANTED


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.name)
def test_the_tests_of_a_row_exist(row: Row) -> None:
    for text in row.tests:
        file, _, word = text.partition(": ")
        names = names_in(TESTS / file)
        assert any(word in name for name in names), f"{file} has no test with {word!r} in its name"


def test_the_page_is_up_to_date() -> None:
    written = TESTS.parent / "docs/explain/security.md"
    assert written.read_text() == page(), "write it anew: make docs"
