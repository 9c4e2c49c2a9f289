"""The planted bugs still fit the source, and a sample of them is planted at each push.

All of them: `make planted`.
"""

import random
import subprocess
import zlib
from pathlib import Path

import pytest

from planted.__main__ import main, verdict
from planted.catalogue import BUGS, KNOWN_MISSED
from planted.patches import ROOT, TESTS, Bug, Change, Moved
from planted.run import Trial, try_bug

SAMPLED = 2


def seed() -> str:
    """The commit, or, in an unpacked archive, the list of bugs."""
    asked = ["git", "rev-parse", "HEAD"]
    try:
        commit = subprocess.run(asked, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    except (OSError, subprocess.CalledProcessError):
        return str(zlib.crc32(repr(BUGS).encode()))
    return commit.strip()


def sample() -> list[Bug]:
    known = [bug for bug in BUGS if bug.name not in KNOWN_MISSED and not bug.is_long]
    return random.Random(seed()).sample(known, SAMPLED)


@pytest.mark.parametrize("bug", BUGS, ids=lambda bug: bug.name)
def test_every_bug_can_be_planted(bug: Bug) -> None:
    texts = bug.changed_files()
    assert texts
    for path, text in texts.items():
        assert text != (ROOT / "src/onbeat" / path).read_text()
    paths = [
        word.partition("::")[0] for word in bug.tests if word.endswith(("/", ".py")) or "::" in word
    ]
    assert paths, "some tests are to catch it"
    assert all((TESTS / path).exists() for path in paths)


def test_bugs_have_names_of_their_own() -> None:
    names = [bug.name for bug in BUGS]
    assert len(set(names)) == len(names)
    assert set(names) >= KNOWN_MISSED


@pytest.mark.proof
@pytest.mark.parametrize("bug", sample(), ids=lambda bug: bug.name)
def test_a_planted_bug_is_caught(bug: Bug) -> None:
    trial = try_bug(bug)
    assert trial.caught, trial.line()


def test_a_change_whose_text_has_moved_is_told() -> None:
    change = Change("a.py", "one\n", "two\n")
    assert change.apply("zero\none\n") == "zero\ntwo\n"
    for text in ("zero\n", "one\none\n"):
        with pytest.raises(Moved, match=r"a\.py: [02] places instead of one"):
            change.apply(text)


def test_a_change_that_is_no_python_is_refused(tmp_path: Path) -> None:
    (tmp_path / "onbeat").mkdir()
    (tmp_path / "onbeat/a.py").write_text("x = 1\n")
    bug = Bug("X", "nothing", (Change("a.py", "x = 1", "x ="),), ())
    with pytest.raises(SyntaxError):
        bug.changed_files(tmp_path)


def test_two_changes_of_a_file_are_both_made(tmp_path: Path) -> None:
    (tmp_path / "onbeat").mkdir()
    (tmp_path / "onbeat/a.py").write_text("x = 1\ny = 1\n")
    changes = (Change("a.py", "x = 1", "x = 2"), Change("a.py", "y = 1", "y = 2"))
    assert Bug("X", "", changes, ()).changed_files(tmp_path) == {"a.py": "x = 2\ny = 2\n"}


def trials(caught: int, missed: int) -> list[Trial]:
    made = [Trial(Bug(f"C{n}", "", (), ()), caught=True, seconds=1, note="") for n in range(caught)]
    return made + [
        Trial(Bug(f"N{n}", "", (), ()), caught=False, seconds=1, note="") for n in range(missed)
    ]


def test_a_bug_that_is_missed_is_a_failure() -> None:
    assert verdict(trials(10, 0)) == 0
    assert verdict(trials(99, 1)) == 1, "it is not on the list of those that are known"


def test_a_name_that_is_no_bug_is_refused() -> None:
    with pytest.raises(SystemExit):
        main(["M0"])


def test_tests_that_pass_over_a_bug_have_missed_it() -> None:
    """A change that changes nothing is not caught: the trial is no test that always fails."""
    harmless = Change(
        "model/retry.py", "        return full * chance", "        return chance * full"
    )
    trial = try_bug(Bug("X", "nothing", (harmless,), ("rules/test_fence.py",)))
    assert not trial.caught
    assert trial.note == "none of its tests failed"
