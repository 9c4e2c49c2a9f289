"""C1, C2: no text from outside names code that is run, and no object is revived from data."""

import ast
import re
import sys
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest

import onbeat
from onbeat import Onbeat
from onbeat.model.job import JobState
from onbeat.testing.build import a_job
from syntax import syntax_of

NOW = datetime(2026, 1, 1, tzinfo=UTC)
SOURCE = Path(onbeat.__file__).parent
REVIVERS = frozenset({"pickle", "marshal", "shelve", "dill", "cloudpickle", "jsonpickle"})
BUILTINS = frozenset({"eval", "exec", "__import__"})
WORDS = re.compile("|".join([*REVIVERS, *BUILTINS, "yaml"]))
"""Only files with one of these are read closely."""
OF_OUR_OWN = {"stores/sql/specs.py": 1}
"""Calls whose text comes from the source: a function of the names of our own fields."""

DANGEROUS = [
    "os.system",
    "builtins.eval",
    "subprocess:run",
    "__import__",
    "posix.system",
    "onbeat.targets.command",
    "antigravity",
    "this",
    "../../etc/passwd",
]


def calls(tree: ast.AST) -> Iterator[tuple[str, int]]:
    """The plain names that are called, and `yaml.load` and its kin."""
    for node in ast.walk(tree):
        if not isinstance(node, ast.Call):
            continue
        match node.func:
            case ast.Name(id=name):
                yield name, node.lineno
            case ast.Attribute(value=ast.Name(id=module), attr=name):
                yield f"{module}.{name}", node.lineno
            case _:
                continue


def imports(tree: ast.AST) -> Iterator[tuple[str, int]]:
    for node in ast.walk(tree):
        match node:
            case ast.Import(names=names):
                yield from ((one.name.partition(".")[0], node.lineno) for one in names)
            case ast.ImportFrom(module=str(module)):
                yield module.partition(".")[0], node.lineno
            case _:
                continue


def revivals(text: str) -> list[str]:
    """Each place of the source that could make objects or code of data."""
    if not WORDS.search(text):
        return []
    tree = syntax_of(text)
    found = [f"line {line}: imports {name}" for name, line in imports(tree) if name in REVIVERS]
    return found + [
        f"line {line}: calls {name}"
        for name, line in calls(tree)
        if name in BUILTINS or name in {"yaml.load", "yaml.unsafe_load", "yaml.full_load"}
    ]


def test_nothing_in_the_source_revives_objects_or_evaluates_text() -> None:
    found = {
        str(path.relative_to(SOURCE)): places
        for path in sorted(SOURCE.rglob("*.py"))
        if (places := revivals(path.read_text()))
    }
    assert {name: len(places) for name, places in found.items()} == OF_OUR_OWN, found


@pytest.mark.parametrize(
    "text",
    [
        "import pickle",
        "from marshal import loads",
        "def f(x):\n    return eval(x)",
        "exec('1')",
        "__import__(name)",
        "import yaml\nyaml.load(text)",
    ],
)
def test_what_revives_is_found(text: str) -> None:
    assert len(revivals(text)) == 1


async def test_a_task_is_a_key_and_no_path_to_code() -> None:
    """A job of an unknown task waits, whatever its name could be imported as."""
    before = set(sys.modules)
    jobs = [a_job(name, created_at=NOW, due_at=NOW) for name in DANGEROUS]
    beat = Onbeat("memory://")

    @beat.task("known")
    def known() -> int:
        return 1

    async with beat:
        await beat.backend.store.enqueue(jobs)
        handle = await known.asend()
        assert await handle.aresult(timeout=60) == 1
        stored = await beat.backend.store.jobs_by_id([job.id for job in jobs])
    assert {job.state for job in stored.values()} == {JobState.WAITING}
    assert {job.attempt for job in stored.values()} == {0}
    assert not {"antigravity", "this"} & (set(sys.modules) - before)
