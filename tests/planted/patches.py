"""Planted bugs: small changes of the source, made in a copy of it.

A change names the text that it replaces, which must stand exactly once in its file. Where the
source has moved on, the change fails loudly and has to be written anew.
"""

import shutil
from dataclasses import dataclass
from pathlib import Path

from syntax import syntax_of

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src"
TESTS = ROOT / "tests"
MEMORY = "contract/test_stores.py::TestMemory"
LONG = (
    "power/",
    "recurrence/",
    "model_checks/",
    "stores/sqlite/test_ballast",
    "interfaces/",
    "app/",
)


class Moved(AssertionError):
    """The text that a change replaces is not there, or is there more than once."""


@dataclass(frozen=True, slots=True)
class Change:
    """In the file at `path` below `src/onbeat`, `old` becomes `new`."""

    path: str
    old: str
    new: str

    def apply(self, text: str) -> str:
        """The changed text. Raises `Moved`."""
        count = text.count(self.old)
        if count != 1:
            raise Moved(f"{self.path}: {count} places instead of one have the text:\n{self.old}")
        return text.replace(self.old, self.new)


@dataclass(frozen=True, slots=True)
class Bug:
    """A planted bug, and the tests of which at least one has to fail with it.

    `name` is its number in the list of planted bugs or of findings. `tests` are arguments of
    pytest: paths and node ids below `tests`, or `-k` with an expression.
    """

    name: str
    what: str
    changes: tuple[Change, ...]
    tests: tuple[str, ...]
    hangs: bool = False
    """A test that does not end by itself has caught it; else that says nothing."""

    @property
    def is_long(self) -> bool:
        """Whether its tests kill processes or race on servers, too long for a sample."""
        return any(word.startswith(LONG) for word in self.tests)

    def changed_files(self, source: Path = SOURCE) -> dict[str, str]:
        """The new text of each changed file, which is still Python if it was. Raises `Moved`."""
        texts: dict[str, str] = {}
        for change in self.changes:
            before = texts.get(change.path) or (source / "onbeat" / change.path).read_text()
            texts[change.path] = change.apply(before)
        for path, text in texts.items():
            if path.endswith(".py"):
                syntax_of(text, path)
        return texts

    def plant(self, folder: Path) -> Path:
        """A copy of the source with this bug in `folder`; the path to import it from."""
        copy = folder / "src"
        # With what is compiled, which is still right for all files but the changed ones, and not
        # with what another process is about to rename.
        shutil.copytree(SOURCE, copy, ignore=shutil.ignore_patterns("*.pyc.*"))
        for path, text in self.changed_files().items():
            (copy / "onbeat" / path).write_text(text)
        return copy


def bug(
    name: str, what: str, *changes: tuple[str, str, str], tests: str, hangs: bool = False
) -> Bug:
    """`tests` are words, of which `-k` takes those after it as one expression."""
    head, option, expression = tests.partition(" -k ")
    words = head.split() + (["-k", expression] if option else [])
    return Bug(name, what, tuple(Change(*change) for change in changes), tuple(words), hangs)
