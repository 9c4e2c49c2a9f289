"""Run all benchmarks, or the named ones: python -m benchmarks [NAME ...].

A benchmark whose server does not answer is skipped with a message.
"""

import subprocess
import sys
from pathlib import Path

FOLDER = Path(__file__).parent
NAMES = (
    *("queue_sqlite", "store_sqlite", "queue_postgres", "brokers", "callbacks", "events", "flows"),
    "recurrence",
)


def main() -> int:
    wished = sys.argv[1:] or NAMES
    unknown = set(wished) - {path.stem for path in FOLDER.glob("[a-z]*.py")}
    if unknown:
        print(f"no benchmark {', '.join(unknown)}; there are {', '.join(NAMES)}", file=sys.stderr)
        return 2
    codes = []
    for name in wished:
        print(f"\n=== {name} ===\n", flush=True)
        command = [sys.executable, str(FOLDER / f"{name}.py")]
        codes.append(subprocess.run(command, check=False).returncode)
    return max(codes)


if __name__ == "__main__":
    sys.exit(main())
