"""The output of a command, within bounds: its begin, its end, and lines for the job's log."""

import codecs
from collections import deque
from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Final

from onbeat.model.credentials import HIDDEN
from onbeat.model.limits import COMMAND_OUTPUT_BYTES_MAX, LOG_LAST_LINES, LOG_LINES_MAX
from onbeat.model.log_line import LogEntry
from onbeat.ports.job_log import AttemptLog
from onbeat.rules.log_lines import UNCLEAN_CHARS_MAX, shortened

LOGGER: Final = "command"
LINE_CHARS_MAX: Final = 16_384
"""A longer line is handled in pieces, so that memory stays flat without line ends."""

FIRST_LINES: Final = LOG_LINES_MAX - LOG_LAST_LINES
HALF: Final = COMMAND_OUTPUT_BYTES_MAX // 2


class CommandOutput:
    """Takes bytes as they come. Bytes that are not UTF-8 are replaced, secrets are hidden."""

    def __init__(
        self, secrets: Sequence[str], log: AttemptLog | None, now: Callable[[], datetime]
    ) -> None:
        self.secrets = secrets
        self.overlap = max(map(len, secrets), default=0)
        self.decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self.rest = ""
        self.kept = BoundedText()
        self.lines = LoggedLines(log, now)

    def add(self, chunk: bytes) -> None:
        self.take(self.decoder.decode(chunk))

    def end(self) -> None:
        """Nothing more comes: the last line counts without its end, too."""
        self.take(self.decoder.decode(b"", final=True))
        self.pass_on(self.clean(self.rest))
        self.rest = ""
        self.lines.end()

    def take(self, text: str) -> None:
        text = self.rest + text
        cut = text.rfind("\n") + 1
        self.pass_on(self.clean(text[:cut]))
        self.rest = text[cut:]
        if len(self.rest) > LINE_CHARS_MAX:
            # A secret may go on in the next chunk, so as much as that is held back.
            rest = self.clean(self.rest)
            cut = max(0, len(rest) - self.overlap)
            self.pass_on(rest[:cut])
            self.rest = rest[cut:]

    def clean(self, text: str) -> str:
        for secret in self.secrets:
            text = text.replace(secret, HIDDEN)
        return text.replace("\0", "\ufffd")

    def pass_on(self, text: str) -> None:
        if text:
            self.kept.add(text)
            self.lines.add(text)


class BoundedText:
    """The begin and the end of a text of any length."""

    def __init__(self) -> None:
        self.size = 0
        self.head = b""
        self.tail = b""

    def add(self, text: str) -> None:
        raw = text.encode("utf-8", "replace")
        self.size += len(raw)
        room = HALF - len(self.head)
        self.head += raw[:room]
        self.tail = (self.tail + raw[room:])[-HALF:]

    def text(self) -> str:
        """In at most `COMMAND_OUTPUT_BYTES_MAX` bytes, beside the note of what is left out."""
        head, tail = self.head.decode("utf-8", "ignore"), self.tail.decode("utf-8", "ignore")
        gone = self.size - len(self.head) - len(self.tail)
        if gone == 0:
            return (self.head + self.tail).decode("utf-8", "ignore")
        return f"{head}\n… {gone:,} bytes are left out …\n{tail}"

    def end(self, chars_max: int) -> str:
        """The last characters of the output."""
        return (self.head + self.tail).decode("utf-8", "ignore").strip()[-chars_max:]


class LoggedLines:
    """Lines for the log of the attempt: the first as they come, the last at the end.

    The log has the same bounds; but it looks at each line, and a command may print millions.
    """

    def __init__(self, log: AttemptLog | None, now: Callable[[], datetime]) -> None:
        self.log = log
        self.now = now
        self.count = 0
        self.last: deque[str] = deque(maxlen=LOG_LAST_LINES)

    def add(self, text: str) -> None:
        if self.log is None:
            return
        text = text.removesuffix("\n")
        room = max(0, FIRST_LINES - self.count)
        self.count += text.count("\n") + 1
        # Never all lines of a chunk at once: there may be 100,000.
        lines = text.split("\n", room)
        for line in lines[:room]:
            self.write(line)
        for rest in lines[room:]:
            last = rest.rsplit("\n", LOG_LAST_LINES)[-LOG_LAST_LINES:]
            self.last.extend(shortened(line, UNCLEAN_CHARS_MAX) for line in last)

    def end(self) -> None:
        gone = self.count - FIRST_LINES - len(self.last)
        if gone > 0:
            self.last.popleft()
            self.write(f"{gone + 1:,} lines of output are left out here")
        for line in self.last:
            self.write(line)
        self.last.clear()

    def write(self, line: str) -> None:
        if self.log is not None:
            text = shortened(line.removesuffix("\r"), UNCLEAN_CHARS_MAX)
            self.log.add_entry(LogEntry(at=self.now(), level="info", logger=LOGGER, text=text))
