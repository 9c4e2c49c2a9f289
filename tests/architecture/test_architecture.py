"""The habits of the house, held by reading its source."""

import ast
import re
import subprocess
import sys
from collections.abc import Iterator
from fnmatch import fnmatch
from pathlib import Path

from onbeat import recurrence
from syntax import syntax_of

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src" / "onbeat"
FILES = sorted(SOURCE.rglob("*.py"))

SYSTEM = "app/system.py"

# What may be asked for only where it comes in from outside, and who else may, and why.
ALLOWED = {
    "time.time": {SYSTEM, "stores/*/doctor.py"},  # it compares two machines' clocks
    "time.time_ns": {SYSTEM, "stores/sqlite/writer.py"},  # it asks for the age of a file
    "time.sleep": set[str](),
    # In processes of their own, the first of which imports nothing more.
    "time.monotonic": {SYSTEM, "app/sidecar_messages.py", "targets/subprocess/child.py"},
    "datetime.now": {SYSTEM, "cli/times.py"},  # the caller's own clock reads "in 5m"
    "datetime.utcnow": set[str](),
    "datetime.today": set[str](),
    "date.today": set[str](),
    "uuid.uuid1": set[str](),
    "uuid.uuid4": set[str](),
    "random.random": {SYSTEM},
    "random.uniform": {SYSTEM},
}
# A driver waits for locks and connections by the machine's clock, and not all at once.
DRIVERS = "stores/"
OF_DRIVERS = {"time.monotonic", "time.sleep", "random.random", "random.uniform"}


def rooms(path: Path) -> str:
    return path.relative_to(SOURCE).as_posix()


def calls(path: Path) -> Iterator[tuple[str, ast.Call]]:
    for node in ast.walk(syntax_of(path.read_text())):
        if isinstance(node, ast.Call):
            yield ast.unparse(node.func), node


def test_the_layers_and_contracts_hold() -> None:
    ran = subprocess.run(
        [sys.executable, "-c", "from importlinter.cli import lint_imports_command as main; main()"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr


def test_the_public_names_of_recurrences_are_those_that_are_imported() -> None:
    # Those of onbeat itself are imported when they are used: tests/interfaces/test_names.py.
    module = recurrence
    tree = syntax_of(Path(module.__file__).read_text())
    imported = {
        alias.asname or alias.name
        for node in tree.body
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }
    assert imported == set(module.__all__)
    assert len(module.__all__) == len(set(module.__all__))
    assert all(hasattr(module, name) for name in module.__all__)


def may(room: str, name: str) -> bool:
    if name not in ALLOWED or any(fnmatch(room, known) for known in ALLOWED[name]):
        return True
    return name in OF_DRIVERS and room.startswith(DRIVERS)


def test_time_and_chance_come_in_from_outside() -> None:
    result = [
        f"{rooms(path)}:{node.lineno} {name}"
        for path in FILES
        for name, node in calls(path)
        if not may(rooms(path), name)
    ]
    assert result == []


def test_nothing_sleeps_for_a_number_of_seconds() -> None:
    result = [
        f"{rooms(path)}:{node.lineno}"
        for path in FILES
        for name, node in calls(path)
        if name.endswith("asyncio.sleep")
        and isinstance(node.args[0], ast.Constant)
        and node.args[0].value != 0
    ]
    assert result == []


def limits() -> list[str]:
    return re.findall(r"^([A-Z_]+): Final", (SOURCE / "model/limits.py").read_text(), re.MULTILINE)


def test_every_limit_is_held_somewhere() -> None:
    elsewhere = [path.read_text() for path in FILES if rooms(path) != "model/limits.py"]
    words = {word for text in elsewhere for word in re.findall(r"\w+", text)}
    assert [name for name in limits() if name not in words] == []


def test_every_package_has_its_place_and_no_room_is_empty() -> None:
    for directory in SOURCE.rglob("*"):
        if directory.is_dir() and directory.name != "__pycache__" and list(directory.glob("*.py")):
            assert (directory / "__init__.py").exists(), f"{directory.name} is no package"
    assert (SOURCE / "py.typed").exists()


def test_no_room_is_named_after_nothing() -> None:
    assert not {path.stem for path in FILES} & {"utils", "util", "helpers", "common", "misc"}
