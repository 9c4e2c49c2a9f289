"""Check the pinned packages of deploy/requirements.txt against published advisories.

`python deploy/audit.py [--strict] [FILE]` exits 0 when no advisory is known for any pin, 1 when one is. If no advisory
source can be reached it says so and exits 0, or 3 with `--strict`.

A package unknown to the source is no proof of safety: pip-audit reports it as skipped and exits 0. So the script first
checks a version with a known advisory. If that is not found, nothing was checked.
"""

import json
import subprocess
import sys
import tempfile
from pathlib import Path

KNOWN_BAD = "jinja2==3.1.4"
"""Has published advisories (a sandbox escape, CVE-2024-56201)."""

PINS = Path(__file__).with_name("requirements.txt")
TIMEOUT_SECONDS = 300


def ask(pins: Path, *flags: str) -> list[dict[str, object]] | None:
    """The advisory source's answer for each pinned package; None when it cannot be reached."""
    command = [sys.executable, "-m", "pip_audit", "-r", str(pins), "--disable-pip", *flags]
    command += ["--format", "json", "--progress-spinner", "off"]
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=TIMEOUT_SECONDS, check=False
        )
        return list(json.loads(done.stdout)["dependencies"])
    except (subprocess.TimeoutExpired, ValueError, KeyError):
        return None


def is_reachable() -> bool:
    """Whether the source finds an advisory that is known to exist."""
    with tempfile.TemporaryDirectory() as folder:
        control = Path(folder, "control.txt")
        control.write_text(KNOWN_BAD + "\n")
        return bool(vulnerable(ask(control, "--no-deps") or []))


def vulnerable(dependencies: list[dict[str, object]]) -> list[dict[str, object]]:
    return [one for one in dependencies if one.get("vulns")]


def verdict(answer: list[dict[str, object]] | None, *, strict: bool) -> tuple[int, list[str]]:
    """The exit status and the printed lines; `answer` is None if nothing could be checked."""
    if answer is None:
        return (3 if strict else 0), ["NOT CHECKED, no advisory source can be reached from here"]
    known = [one for one in answer if not one.get("skip_reason")]
    skipped = [str(one["name"]) for one in answer if one.get("skip_reason")]
    lines = [f"{one['name']} {one['version']}: {ids_of(one)}" for one in vulnerable(known)]
    if skipped:
        lines.append(f"not known to the source, so not checked: {', '.join(skipped)}")
    if vulnerable(known):
        return 1, lines
    return (3 if strict and skipped else 0), [*lines, f"none known for {len(known)} packages"]


def ids_of(dependency: dict[str, object]) -> str:
    return ", ".join(str(each["id"]) for each in dependency["vulns"])  # type: ignore[index,attr-defined]


def main(arguments: list[str]) -> int:
    files = [one for one in arguments if not one.startswith("-")]
    pins = Path(files[0]) if files else PINS
    hashes = "--require-hashes" if "--hash=" in pins.read_text() else "--no-deps"
    status, lines = verdict(
        ask(pins, hashes) if is_reachable() else None, strict="--strict" in arguments
    )
    print("\n".join(f"advisories: {line}" for line in lines))
    return status


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
