"""The command line of `pip install onbeat`, without any extra."""

import re
import subprocess
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[2]
MODULES = {"python_dateutil": "dateutil", "pyyaml": "yaml", "python_dotenv": "dotenv"}

PROGRAM = """
import sys
hidden, commands = sys.argv[1].split(","), sys.argv[2:]
sys.modules.update(dict.fromkeys(hidden))
from onbeat.cli.main import root
for command in commands:
    try:
        root.main(command.split())
    except SystemExit as end:
        assert not end.code, (command, end.code)
"""


def test_commands_on_a_store_need_no_extra(tmp_path: Path) -> None:
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"][
        "optional-dependencies"
    ]
    names = {
        re.split(r"[\[<>=; ]", one)[0].replace("-", "_")
        for extra in ("http", "encryption", "server", "otel", "postgres", "mysql")
        for one in extras[extra]
    } - {"onbeat"}
    hidden = {MODULES.get(name, name) for name in names} - {"opentelemetry_sdk"}
    commands = (
        "next @daily",
        "explain @hourly",
        "migrate",
        "job add --task x",
        "job list",
        "stats",
    )
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, ",".join(sorted(hidden)), *commands],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "waiting" in done.stdout
