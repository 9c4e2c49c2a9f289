"""`python -m planted [NAME ...]`: plants each bug and tells which ones the tests catch.

Exits with 1 if fewer than nine of ten are caught, or if one is missed that is not on the list of
those that are known to be.
"""

import argparse
import sys
from concurrent.futures import ThreadPoolExecutor

from planted.catalogue import BUGS, KNOWN_MISSED
from planted.run import Trial, try_bug

CAUGHT_SHARE_MIN = 0.9


def verdict(trials: list[Trial]) -> int:
    """The exit code; prints the sum."""
    missed = {trial.bug.name for trial in trials if not trial.caught}
    caught = len(trials) - len(missed)
    say(f"planted {len(trials)}, caught {caught}, missed {sorted(missed)}")
    return 1 if missed - KNOWN_MISSED or caught < CAUGHT_SHARE_MIN * len(trials) else 0


def main(words: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="planted", description=__doc__)
    parser.add_argument("names", nargs="*", help="the bugs to plant; without any, all of them")
    parser.add_argument("--jobs", type=int, default=1, help="how many at once")
    asked = parser.parse_args(words)
    unknown = set(asked.names) - {bug.name for bug in BUGS}
    if unknown:
        parser.error(f"no such bug: {', '.join(sorted(unknown))}")
    chosen = [bug for bug in BUGS if not asked.names or bug.name in asked.names]
    with ThreadPoolExecutor(asked.jobs) as pool:
        return verdict([told(trial) for trial in pool.map(try_bug, chosen)])


def told(trial: Trial) -> Trial:
    say(trial.line())
    return trial


def say(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
