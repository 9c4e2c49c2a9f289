"""Processes of their own."""

import subprocess
import sys
from pathlib import Path

from onbeat.stores.mysql.migrate import migrations
from stores.mysql.server import database, execute

PROCESSES = 4


def test_many_processes_may_migrate_at_once() -> None:
    script = str(Path(__file__).with_name("open_once.py"))
    every_version = [(number,) for number in range(1, len(migrations()) + 1)]
    with database() as url:
        started = [
            subprocess.Popen([sys.executable, script, url], stdin=subprocess.PIPE)
            for _ in range(PROCESSES)
        ]
        for process in started:
            process.communicate(b"go\n", timeout=30)
        assert [process.returncode for process in started] == [0] * PROCESSES
        assert execute(url, "SELECT version FROM onbeat_schema") == every_version
        assert execute(url, "SELECT count FROM marks WHERE name = 'ping'") == [(PROCESSES,)]
