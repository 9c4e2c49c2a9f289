"""`onbeat up --include` and `--reload`."""

import os
import subprocess
import sys
from pathlib import Path
from textwrap import dedent

import pytest

from conditions import eventually_here
from onbeat import Misconfigured, Onbeat
from onbeat.cli.includes import import_included, matching
from onbeat.cli.reload import difference, look, watched_folders

PACKAGE = {
    "depot/__init__.py": "",
    "depot/__main__.py": "raise SystemExit('it does work')",
    "depot/tasks.py": "",
    "depot/mail/__init__.py": "",
    "depot/mail/tasks.py": "LOADED = True",
    "depot/mail/forms.py": "import nothing_of_that_name",
}


@pytest.fixture
def depot(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name, text in PACKAGE.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    for name in [name for name in sys.modules if name.partition(".")[0] == "depot"]:
        monkeypatch.delitem(sys.modules, name)
    return tmp_path


@pytest.mark.parametrize(
    ("pattern", "names"),
    [
        ("depot.tasks", ["depot.tasks"]),
        ("depot.*.tasks", ["depot.mail.tasks"]),
        ("depot.*", ["depot.mail", "depot.mail.forms", "depot.mail.tasks", "depot.tasks"]),
        ("depot.mail.t*", ["depot.mail.tasks"]),
    ],
)
def test_a_pattern_stands_for_modules_but_never_for_main(
    depot: Path, pattern: str, names: list[str]
) -> None:
    assert matching(pattern) == names


def test_included_modules_are_imported(depot: Path) -> None:
    assert import_included(["depot.tasks", "depot.*.tasks"]) == ["depot.tasks", "depot.mail.tasks"]
    assert sys.modules["depot.mail.tasks"].LOADED


@pytest.mark.parametrize(
    ("pattern", "message"),
    [
        ("*.tasks", "begin with a package"),
        ("depot.*.view", "no module of depot matches"),
        ("depot.tasks.*", "depot.tasks is no package"),
        ("depot.mail.*", "nothing_of_that_name"),
        ("absent.*", "absent cannot be imported"),
    ],
)
def test_a_pattern_that_cannot_be_meant_is_refused(depot: Path, pattern: str, message: str) -> None:
    with pytest.raises(Misconfigured, match=message):
        import_included([pattern])


def test_changes_of_sources_are_seen_but_none_of_other_files(tmp_path: Path) -> None:
    for name in ("a.py", "b/c.py", ".git/d.py", "env/pyvenv.cfg", "env/e.py", "f.txt"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("1")
    before = look([tmp_path])
    assert {str(one.relative_to(tmp_path)) for one in before} == {"a.py", "b/c.py"}
    (tmp_path / "f.txt").write_text("22")
    (tmp_path / "env/e.py").write_text("22")
    assert difference(before, look([tmp_path])) is None
    (tmp_path / "b/c.py").write_text("22")
    assert difference(before, look([tmp_path])) == tmp_path / "b/c.py"
    changed = look([tmp_path])
    (tmp_path / "a.py").unlink()
    assert difference(changed, look([tmp_path])) == tmp_path / "a.py"


def test_the_folder_of_a_program_elsewhere_is_watched_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    assert watched_folders(None) == [tmp_path / "here"]
    assert watched_folders("shop:beat") == [tmp_path / "here"]
    assert watched_folders("lib/shop.py") == [tmp_path / "here"]
    assert watched_folders("../shop.py:beat") == [tmp_path / "here", tmp_path]


def program(folder: Path, tasks: str) -> None:
    text = 'from onbeat import Onbeat\n\nbeat = Onbeat("sqlite:///jobs.db")\n'
    (folder / "shop.py").write_text(text + dedent(tasks))


def test_a_service_is_started_again_with_a_changed_program(tmp_path: Path) -> None:
    """A broken version in between ends the service; the next one brings it back."""
    program(tmp_path, "")
    with (
        (tmp_path / "up.log").open("wb") as log,
        subprocess.Popen(
            [sys.executable, "-m", "onbeat", "up", "shop.py", "--reload", "--port", "0"],
            cwd=tmp_path,
            env=os.environ | {"ONBEAT_LOG__FORMAT": "json"},
            stdout=log,
            stderr=subprocess.STDOUT,
        ) as process,
    ):
        try:
            eventually_here(lambda: count(tmp_path, '"ready"') == 1, "it is ready")
            program(tmp_path, "this is no Python")
            eventually_here(lambda: count(tmp_path, "waiting for a change"), "it has ended")
            program(tmp_path, '@beat.task("late")\ndef late():\n    return 7\n')
            eventually_here(lambda: count(tmp_path, '"ready"') == 2, "it is ready again")
            with Onbeat(f"sqlite:///{tmp_path / 'jobs.db'}") as other:

                @other.task("late")
                def late() -> int: ...

                assert late.send().result(60) == 7
        finally:
            process.terminate()
            code = process.wait(60)
    assert code == 0, (tmp_path / "up.log").read_text()
    assert count(tmp_path, '"drained"') == 2


def count(folder: Path, text: str) -> int:
    return (folder / "up.log").read_text().count(text)
