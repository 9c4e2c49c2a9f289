"""Which source a history ran: a seed says nothing without it."""

import subprocess
from pathlib import Path

import onbeat

SOURCE = Path(onbeat.__file__).parent
SECONDS_MAX = 10


def revision() -> str | None:
    """The commit of Onbeat's source, `+` where it was changed since; None where git has none."""
    # A package that is installed lies in no repository, or in that of somebody else's program.
    if git("ls-files", "--error-unmatch", "__init__.py") is None:
        return None
    commit = git("rev-parse", "--short=12", "HEAD")
    if commit is None:
        return None
    return commit if git("status", "--porcelain", "--", ".") == "" else f"{commit}+"


def git(*words: str) -> str | None:
    """What it prints; None where there is no git, or where it refuses."""
    command = ["git", "-C", str(SOURCE), *words]
    try:
        done = subprocess.run(  # noqa: S603  words of our own
            command, capture_output=True, text=True, check=True, timeout=SECONDS_MAX
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout.strip()
