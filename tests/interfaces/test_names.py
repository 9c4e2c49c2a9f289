"""The public names: where they come from, and what the first of them costs."""

import ast
import re
import subprocess
import sys
from pathlib import Path

import pytest

import onbeat
from syntax import syntax_of


def imported_for_checkers() -> dict[str, str]:
    """The names that type checkers see, with their modules."""
    tree = syntax_of(Path(onbeat.__file__).read_text())
    (block,) = (node for node in tree.body if isinstance(node, ast.If))
    return {
        alias.name: node.module
        for node in block.body
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }


def test_what_checkers_see_is_what_programs_get() -> None:
    result = {name: module for module, names in onbeat.PLACES.items() for name in names.split()}
    assert result == imported_for_checkers()
    assert sorted(result) == sorted(onbeat.__all__) == dir(onbeat)


@pytest.mark.parametrize("name", onbeat.__all__)
def test_every_name_is_there(name: str) -> None:
    assert getattr(onbeat, name) is getattr(onbeat, name)


def test_other_names_are_not_and_say_so_as_everywhere() -> None:
    with pytest.raises(AttributeError, match="module 'onbeat' has no attribute 'nonsense'"):
        onbeat.nonsense  # noqa: B018


def documented_members() -> set[str]:
    """The names in the first column of the table of `Onbeat`."""
    page = (Path(__file__).parents[2] / "docs" / "reference" / "python.md").read_text()
    section = page.split("## Onbeat\n")[1].split("\n## ")[0]
    cells = re.findall(r"^\| (`.*?) \|", section, re.MULTILINE)
    return {name for cell in cells for name in re.findall(r"\w+", cell)}


def test_every_public_member_of_an_onbeat_is_documented_or_the_asynchronous_form_of_one() -> None:
    members = {name for name in dir(onbeat.Onbeat("memory://")) if not name.startswith("_")}
    documented = documented_members()
    unknown = {name for name in members if not {name, name.removeprefix("a")} & documented}
    assert unknown == {"within"}, "the former name of in_transaction"


def loaded_by(statement: str) -> set[str]:
    code = f"{statement}; import sys; print(*(name for name in sys.modules if 'onbeat' in name))"
    ran = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60
    )
    return set(ran.stdout.split())


def test_a_name_brings_only_what_it_needs() -> None:
    assert loaded_by("import onbeat") == {"onbeat"}
    for_rules = loaded_by("from onbeat import cron, every; import onbeat; onbeat.recurrence.rrule")
    assert "onbeat.recurrence" in for_rules
    assert not {name for name in for_rules if name.startswith(("onbeat.app", "onbeat.engine"))}
