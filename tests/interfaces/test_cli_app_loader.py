"""Finding the Onbeat of a program."""

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from onbeat import Onbeat
from onbeat.cli.app_loader import from_module, load_app
from onbeat.model.errors import Misconfigured

ONE = "from onbeat import Onbeat\nbeat = Onbeat('memory://')\n"


@pytest.fixture(autouse=True)
def _imports_as_before(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.chdir(tmp_path)
    path, modules = sys.path[:], set(sys.modules)
    yield
    sys.path[:] = path
    for name in set(sys.modules) - modules:
        del sys.modules[name]


def refusal(place: str) -> str:
    with pytest.raises(Misconfigured) as caught:
        load_app(place)
    assert caught.value.key == "app"
    assert "\n" not in str(caught.value)
    return str(caught.value)


@pytest.mark.parametrize("place", ["first.py", "first.py:beat", "first", "first:beat"])
def test_a_file_or_a_module_with_one_is_enough(tmp_path: Path, place: str) -> None:
    (tmp_path / "first.py").write_text(ONE)
    assert isinstance(load_app(place), Onbeat)


@pytest.mark.parametrize(
    "start",
    [
        "beat.run()",
        "with beat.started():\n    pass",
        "import asyncio\nasync def main():\n    async with beat:\n        pass\nasyncio.run(main())",
    ],
)
def test_a_program_that_starts_itself_is_refused(tmp_path: Path, start: str) -> None:
    (tmp_path / "runs.py").write_text(f"{ONE}{start}\n")
    assert "runs.py cannot be imported" in refusal("runs.py")
    assert 'under `if __name__ == "__main__":`' in refusal("runs")
    with pytest.raises(Misconfigured, match="starts itself while it is imported"):
        from_module("runs")  # as `--include` does


def test_a_program_may_start_itself_as_a_script(tmp_path: Path) -> None:
    (tmp_path / "guarded.py").write_text(f"{ONE}if __name__ == '__main__':\n    beat.run()\n")
    assert isinstance(load_app("guarded.py"), Onbeat)


def test_a_folder_is_no_program(tmp_path: Path) -> None:
    (tmp_path / "shop").mkdir()
    assert refusal("./shop") == "app: ./shop is a folder; give FILE.py or MODULE:NAME"


async def test_a_program_does_not_run_within_a_coroutine() -> None:
    with pytest.raises(RuntimeError, match="use `async with beat` instead"):
        Onbeat("memory://").run()


def test_a_file_may_import_what_lies_beside_it(tmp_path: Path) -> None:
    (tmp_path / "deep").mkdir()
    (tmp_path / "deep" / "neighbour_of_app.py").write_text("NAME = 'x'\n")
    (tmp_path / "deep" / "second.py").write_text("import neighbour_of_app\n" + ONE)
    assert isinstance(load_app(str(tmp_path / "deep" / "second.py")), Onbeat)


def test_the_same_one_under_two_names_is_one(tmp_path: Path) -> None:
    (tmp_path / "third.py").write_text(ONE + "app = beat\n")
    assert isinstance(load_app("third.py"), Onbeat)


def test_of_several_one_must_be_chosen(tmp_path: Path) -> None:
    (tmp_path / "fourth.py").write_text(ONE + "other = Onbeat('memory://')\n")
    message = refusal("fourth.py")
    assert "fourth.py:beat or fourth.py:other" in message
    assert isinstance(load_app("fourth.py:other"), Onbeat)


@pytest.mark.parametrize(
    ("text", "place", "said"),
    [
        ("x = 1\n", "bad1.py", "has no Onbeat"),
        (ONE, "bad2.py:bat", "bat is not an Onbeat; it has beat"),
        ("x = 1\n\nraise ValueError('no\\nway')\n", "bad3.py", "ValueError: no way (line 3)"),
        ("def f(:\n", "bad4.py", "SyntaxError"),
        ("import nowhere_to_be_found\n", "bad5.py", "No module named 'nowhere_to_be_found'"),
        ("raise SystemExit(0)\n", "bad6.py", "SystemExit"),
        (ONE, "json.py", "already loaded"),
    ],
)
def test_a_program_that_cannot_be_used_is_named_in_one_line(
    tmp_path: Path, text: str, place: str, said: str
) -> None:
    (tmp_path / place.partition(":")[0]).write_text(text)
    message = refusal(place)
    assert said in message
    assert place.partition(":")[0] in message


@pytest.mark.parametrize("place", ["nowhere.py", "nowhere.module:beat"])
def test_a_program_that_is_not_there_is_named(place: str) -> None:
    assert "nowhere" in refusal(place)
