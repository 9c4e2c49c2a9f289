"""D10: the audit finds an advisory that is known to exist, or says that it has checked nothing."""

import json
import runpy
import sys
from pathlib import Path

import pytest

AUDIT = Path(__file__).parents[2] / "deploy/audit.py"

FINDS = """
import json, sys
pins = open(sys.argv[sys.argv.index("-r") + 1]).read().splitlines()
def answer(pin):
    name, _, version = pin.partition("==")
    vulns = [{"id": "CVE-2024-56201"}] if pin == "jinja2==3.1.4" else []
    return {"name": name, "version": version.split()[0], "vulns": vulns}
print(json.dumps({"dependencies": [answer(pin) for pin in pins if "==" in pin]}))
"""
"""A source that knows the advisory."""

SKIPS = """
import json
print(json.dumps({"dependencies": [{"name": "jinja2", "skip_reason": "not found"}]}))
"""
"""One that has nothing about any package, and ends with 0: silence that looks like safety."""

BREAKS = "raise SystemExit('no route to host')"


def audit(
    monkeypatch: pytest.MonkeyPatch, folder: Path, source: str, pins: str, *flags: str
) -> int:
    """The exit code of the audit of these pins, which asks this source instead of pip-audit's."""
    (folder / "pip_audit.py").write_text(source)
    (folder / "pins.txt").write_text(pins)
    monkeypatch.setenv("PYTHONPATH", str(folder))
    monkeypatch.setattr(sys, "argv", [str(AUDIT), *flags, str(folder / "pins.txt")])
    with pytest.raises(SystemExit) as ended:
        runpy.run_path(str(AUDIT), run_name="__main__")
    return int(ended.value.code or 0)


def test_a_pin_that_is_known_to_be_bad_fails(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    assert audit(monkeypatch, tmp_path, FINDS, "jinja2==3.1.4\nmsgspec==0.19.0\n") == 1
    assert audit(monkeypatch, tmp_path, FINDS, "msgspec==0.19.0\n", "--strict") == 0


@pytest.mark.parametrize("source", [SKIPS, BREAKS])
def test_a_source_that_misses_it_has_checked_nothing(
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    source: str,
) -> None:
    assert audit(monkeypatch, tmp_path, source, "jinja2==3.1.4\n", "--strict") == 3
    assert audit(monkeypatch, tmp_path, source, "jinja2==3.1.4\n") == 0
    assert "NOT CHECKED" in capsys.readouterr().out


def test_the_control_is_a_pin_with_an_advisory() -> None:
    assert json.dumps(runpy.run_path(str(AUDIT))["KNOWN_BAD"]) == '"jinja2==3.1.4"'
