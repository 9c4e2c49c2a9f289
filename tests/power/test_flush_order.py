"""What the system is asked to do: a job is on the disk before its answer goes out.

The calls of a running service are watched from outside, by `strace`.
"""

import json
import re
import signal
import subprocess
import urllib.request
from pathlib import Path
from typing import Final

import pytest

from app.programs import program
from conditions import eventually_here
from free_ports import free_port
from transports.servers import installed

UP: Final = """
import sys
from onbeat.cli.main import main
sys.argv[1:1] = ["up", "--roles", "api"]
main()
"""
CALLS: Final = "trace=read,recvfrom,recvmsg,write,writev,sendto,sendmsg,fsync,fdatasync"
JOBS: Final = 20


def post(port: int, key: str) -> None:
    request = urllib.request.Request(
        f"http://127.0.0.1:{port}/api/jobs",
        data=json.dumps({"task": "work"}).encode(),
        headers={"Content-Type": "application/json", "Idempotency-Key": key},
    )
    with urllib.request.urlopen(request) as answer:
        assert answer.status == 201


def flushed_before_answer(calls: list[str], key: str) -> bool:
    """Whether the log of the store was flushed between this request and its answer."""
    (asked,) = [number for number, call in enumerate(calls) if key in call]
    answered = next(n for n, call in enumerate(calls) if n > asked and "HTTP/1.1 201" in call)
    between = "\n".join(calls[asked:answered])
    waiting = set(
        re.findall(r"^(\d+) +f(?:data)?sync\(\d+<[^>]*\.db-wal> <unfinished", between, re.MULTILINE)
    )
    ended = set(
        re.findall(r"^(\d+) +<\.\.\. f(?:data)?sync resumed>\) += 0", between, re.MULTILINE)
    )
    at_once = re.search(r"f(?:data)?sync\(\d+<[^>]*\.db-wal>\) += 0", between)
    return at_once is not None or bool(waiting & ended)


def test_no_answer_goes_out_before_its_job_is_flushed(tmp_path):
    strace = installed("strace", "strace", "PATH")
    port, calls = free_port(), tmp_path / "calls"
    store = f"sqlite:///{tmp_path}/onbeat.db"
    with program(UP, tmp_path, "--store", store, "--port", str(port)) as service:
        service.wait_to_say("event=ready")
        command = [strace, "-f", "-y", "-s", "600", "-e", CALLS, "-o", str(calls), "-p"]
        with subprocess.Popen([*command, str(service.pid)], stderr=subprocess.PIPE) as watching:
            eventually_here(lambda: is_watched(service.pid), "its calls are watched")
            for number in range(JOBS):
                post(port, f"key-{number:03}-")
            watching.send_signal(signal.SIGINT)
    lines = calls.read_text(errors="replace").splitlines()
    assert all(flushed_before_answer(lines, f"key-{number:03}-") for number in range(JOBS))


def is_watched(pid: int) -> bool:
    """Every thread of the process."""
    tasks = list(Path(f"/proc/{pid}/task").glob("*/status"))
    return bool(tasks) and all("TracerPid:\t0\n" not in task.read_text() for task in tasks)


ASKED: Final = '7 recvfrom(5<socket>, "POST /api/jobs Idempotency-Key: key-1-", 99) = 70'
ANSWERED: Final = '7 sendto(5<socket>, "HTTP/1.1 201 Created", 20) = 20'
AT_ONCE: Final = "8 fdatasync(6</d/onbeat.db-wal>) = 0"
BEGUN: Final = "8 fdatasync(6</d/onbeat.db-wal> <unfinished ...>"
ENDED: Final = "8 <... fdatasync resumed>) = 0"


@pytest.mark.parametrize(
    ("calls", "is_flushed"),
    [
        ([ASKED, AT_ONCE, ANSWERED], True),
        ([ASKED, BEGUN, ENDED, ANSWERED], True),
        ([ASKED, ANSWERED], False),
        ([AT_ONCE, ASKED, ANSWERED, AT_ONCE], False),
        ([ASKED, BEGUN, ANSWERED, ENDED], False),
        ([ASKED, BEGUN, ENDED.replace("8", "9"), ANSWERED], False),
        ([ASKED, AT_ONCE.replace("= 0", "= -1 EIO"), ANSWERED], False),
        ([ASKED, AT_ONCE.replace("onbeat.db-wal", "other"), ANSWERED], False),
    ],
)
def test_a_flush_counts_if_it_is_the_log_s_and_over_in_time(calls, is_flushed):
    assert flushed_before_answer(calls, "key-1-") is is_flushed
