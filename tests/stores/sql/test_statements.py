"""The final text of composed statements, in `statements/`, and that databases can explain it."""

import ast
import asyncio
import os
from collections.abc import Iterator, Mapping
from operator import attrgetter
from pathlib import Path
from typing import Final

import pytest

from stores.sql.explain import KINDS, Kind
from stores.sql.record_statements import METHODS, STORES, Recording
from stores.sql.store_operations import run_all
from syntax import syntax_of

FILES: Final = Path(__file__).parent / "statements"
REWRITE: Final = "WRITE_STATEMENTS"
COMMAND: Final = f"{REWRITE}=1 .venv/bin/pytest tests/stores/sql/test_statements.py"
SESSION_METHODS: Final = frozenset(f"session.{name}" for name in METHODS)

each_kind = pytest.mark.parametrize("kind", KINDS, ids=attrgetter("name"))


@pytest.fixture(scope="module")
def recordings(tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, Recording]:
    return {kind.name: record(kind, tmp_path_factory.mktemp(kind.name)) for kind in KINDS}


def record(kind: Kind, folder: Path) -> Recording:
    recording = Recording()
    with kind.database(folder) as url, pytest.MonkeyPatch.context() as patch:
        recording.watch(kind.transaction, patch)
        asyncio.run(use_store(kind, url))
    return recording


async def use_store(kind: Kind, url: str) -> None:
    store = kind.store(url)
    await store.open()
    try:
        await run_all(store)
    finally:
        await store.close()


def file_of(kind: Kind) -> Path:
    return FILES / f"{kind.name}.sql"


def text_of(kind: Kind, recording: Recording) -> str:
    """Sorted, so that the order in which they ran does not count."""
    head = (
        f"-- What `onbeat.stores.sql` composes for {kind.name}, by file and function below\n"
        f"-- `src/onbeat/stores`. Values are {kind.mark}; of several rows one is shown.\n"
        f"-- Write this file anew: {COMMAND}\n"
        f"-- See a plan: {kind.how}.\n"
    )
    parts = (f"-- {one.verb}\n{one.text};\n" for one in sorted(recording.statements))
    return "\n".join([head, *parts])


def statements_in(file: Path) -> list[str]:
    _, *parts = file.read_text().split("\n\n")
    return [part.partition("\n")[2].strip().removesuffix(";") for part in parts]


@each_kind
def test_the_files_have_the_statements_that_stores_run(
    kind: Kind, recordings: Mapping[str, Recording]
) -> None:
    text = text_of(kind, recordings[kind.name])
    if os.environ.get(REWRITE):
        file_of(kind).write_text(text)
    assert file_of(kind).read_text() == text, f"if this is meant, run: {COMMAND}"


@each_kind
def test_a_new_database_explains_each_statement(kind: Kind, tmp_path: Path) -> None:
    with kind.database(tmp_path) as url:
        asyncio.run(migrate(kind, url))
        kind.explain(url, statements_in(file_of(kind)))


async def migrate(kind: Kind, url: str) -> None:
    store = kind.store(url)
    await store.open()
    await store.close()


def test_the_recorded_operations_run_every_verb(recordings: Mapping[str, Recording]) -> None:
    lines = {place for one in recordings.values() for place in one.lines}
    missed = [
        f"{place}:{call.lineno} {ast.unparse(call)}"
        for place, call in session_calls()
        if not any((place, line) in lines for line in lines_of(call))
    ]
    assert missed == [], "add operations to stores/sql/store_operations.py that run these"


def session_calls() -> Iterator[tuple[str, ast.Call]]:
    """The calls of methods of `Session` in verbs, with their place below `stores`."""
    for path in sorted((STORES / "sql" / "verbs").glob("*.py")):
        for node in ast.walk(syntax_of(path.read_text())):
            if isinstance(node, ast.Call) and ast.unparse(node.func) in SESSION_METHODS:
                yield path.relative_to(STORES).as_posix(), node


def lines_of(call: ast.Call) -> range:
    return range(call.lineno, (call.end_lineno or call.lineno) + 1)
