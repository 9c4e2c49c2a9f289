"""A reader's terminal: one bash that keeps its variables from command to command."""

import shutil
import subprocess
from pathlib import Path
from types import TracebackType
from typing import Self

from docs.services import environment

END = "<<end of the answer>>"

CURL = '''#!/usr/bin/env python3
"""As much of curl as the documentation uses, for machines that have none."""
import argparse, sys, urllib.error, urllib.request
parser = argparse.ArgumentParser()
parser.add_argument("url")
parser.add_argument("-s", action="store_true")
parser.add_argument("-X", dest="method")
parser.add_argument("-H", dest="headers", action="append", default=[])
parser.add_argument("-d", dest="data")
given = parser.parse_args()
headers = dict(header.split(": ", 1) for header in given.headers)
body = None if given.data is None else given.data.replace("\\n", "").encode()
asked = urllib.request.Request(given.url, body, headers, method=given.method)
try:
    answer = urllib.request.urlopen(asked, timeout=30)
except urllib.error.HTTPError as error:
    answer = error
sys.stdout.buffer.write(answer.read())
'''


class Shell:
    def __init__(self, folder: Path) -> None:
        if shutil.which("curl") is None:
            stand_in = folder / "bin" / "curl"
            stand_in.parent.mkdir(exist_ok=True)
            stand_in.write_text(CURL)
            stand_in.chmod(0o755)
        self.bash = subprocess.Popen(
            ["bash", "--norc"],
            cwd=folder,
            env=environment(folder),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        assert self.bash.stdin is not None
        assert self.bash.stdout is not None
        self.bash.stdin.close()
        self.bash.wait(30)
        self.bash.stdout.close()

    def run(self, command: str) -> tuple[int, str]:
        """The exit code and what was printed."""
        assert self.bash.stdin is not None
        assert self.bash.stdout is not None
        self.bash.stdin.write(f"{{ {command}\n}} </dev/null\nprintf '\\n%s %s\\n' '{END}' $?\n")
        self.bash.stdin.flush()
        printed = ""
        for line in self.bash.stdout:
            if line.startswith(END):
                return int(line.removeprefix(END)), printed.strip()
            printed += line
        raise AssertionError(f"the shell ended in {command!r}: {printed}")
