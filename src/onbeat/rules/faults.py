"""Faults: failures that are alike, told by the kind of error, its text and where it was raised.

Numbers, ids, quoted parts and addresses differ from one failure to the next, so they do not count.
A key depends on nothing else than the error and its target: it is the same in every process.
"""

import hashlib
import re
from datetime import UTC, datetime
from typing import Final
from urllib.parse import urlsplit

import msgspec

from onbeat.model.fault import (
    HOURS_KEPT,
    OTHER,
    OTHER_TASK,
    OTHER_TITLE,
    FaultChange,
    FaultRecord,
)
from onbeat.model.ids import JobId
from onbeat.model.target import (
    CommandTarget,
    HandlerTarget,
    HttpTarget,
    MessageTarget,
    NotifyTarget,
    Target,
    lane_of,
)

END_CHARS: Final = 4_096
"""How much of the begin and of the end of an error is looked at."""
TITLE_CHARS_MAX: Final = 200
PLACE_CHARS_MAX: Final = 200
MESSAGE_CHARS_MAX: Final = 500

FRAME: Final = re.compile(r'[ |]*File "([^"\n]{1,1000})", line \d+(?:, in ([^\n]{1,200}))?')
MARGIN: Final = re.compile(r"[ +\-\d]{0,100}\| ?")
KIND: Final = re.compile(r"([A-Za-z_][\w.]{0,150})(?:: (.*)|:?$)")
LIBRARY: Final = re.compile(
    r"[\\/](?:site|dist)-packages[\\/]|[\\/]lib(?:64)?[\\/]python\d|^<|[\\/]Python\d+[\\/]Lib[\\/]"
)
NUMBERS: Final = re.compile(r"\d+")
STATUS: Final = re.compile(r" answered (\d{3})\b")

ADDRESS: Final = r"[A-Za-z][\w+.\-]{0,20}://[^\s'\"<>]{1,500}"
MAIL: Final = r"[\w.+\-]{1,64}@[\w.\-]{1,255}"
QUOTED: Final = r"'[^'\n]{0,200}'|\"[^\"\n]{0,200}\"|`[^`\n]{0,200}`"
ID: Final = r"\b[0-9a-fA-F]{8}(?:-?[0-9a-fA-F]{4}){3}-?[0-9a-fA-F]{12}\b"
HEX: Final = (
    r"\b0[xX][0-9a-fA-F]+\b"
    r"|\b(?=\d{0,40}[a-fA-F])(?=[a-fA-F]{0,40}\d)[0-9a-fA-F]{6,}\b"
)
WORKER: Final = r"(?<=\bworker )[a-z2-7]{12}\b"
PATH: Final = r"(?<![\w.])(?:[A-Za-z]:)?(?:[\\/][\w.\-]{1,100}){2,20}"
NUMBER: Final = r"\d+(?:[.,:]\d+)*"
VARIABLE: Final = re.compile(
    "|".join(
        f"(?P<{name}>{pattern})"
        for name, pattern in (
            ("address", ADDRESS),
            ("mail", MAIL),
            ("quoted", QUOTED),
            ("id", ID),
            ("hex", HEX),
            ("worker", WORKER),
            ("path", PATH),
            ("number", NUMBER),
        )
    )
)
MARKS: Final = {
    "address": "<address>",
    "mail": "<mail>",
    "quoted": "<text>",
    "id": "#",
    "hex": "#",
    "worker": "#",
    "path": "<path>",
    "number": "#",
}


class FaultIdentity(msgspec.Struct, frozen=True, gc=False):
    """What failures that are alike have in common. `place` is the frame, `file.py in function`."""

    key: int
    title: str
    place: str


class ParsedError(msgspec.Struct, frozen=True, gc=False):
    """An error: its kind, the first line of its message, and the innermost frame of its own."""

    kind: str
    message: str
    place: str


def fault_key(target: Target, error: str) -> int:
    """From 1 to below 2**63."""
    return key_of(target, parsed(error), error)


def fault_of(target: Target, error: str) -> FaultIdentity:
    found = parsed(error)
    return FaultIdentity(key_of(target, found, error), title_of(target, found, error), found.place)


def key_of(target: Target, found: ParsedError, error: str) -> int:
    status = status_in(target, error)
    words = f"{status}" if status else "\0".join((found.kind, generic(found.message), found.place))
    return key_from(subject_of(target), words)


def key_from(*parts: str) -> int:
    """The key of these texts: never 0, and positive as a signed number of 64 bits."""
    text = "\0".join(parts).encode("utf-8", "replace")
    return (int.from_bytes(hashlib.blake2b(text, digest_size=8).digest(), "big") >> 1) or 1


def title_of(target: Target, found: ParsedError, error: str) -> str:
    status = status_in(target, error)
    if status:
        return f"HTTP {status} from {host_of(target)}"[:TITLE_CHARS_MAX]
    message = generic(found.message)
    if host := host_of(target):
        message = message.replace(MARKS["address"], host)
    words = f"{found.kind}: {message}" if found.kind and message else found.kind or message
    return (words or "no error text")[:TITLE_CHARS_MAX]


def subject_of(target: Target) -> str:
    """What has failed: a task, a host, a queue of a connection, a channel, or a program."""
    match target:
        case HandlerTarget(task=task):
            return task
        case HttpTarget():
            return f"@http:{host_of(target)}"
        case MessageTarget(to=to, queue=queue):
            return f"@message:{to}:{queue}"
        case NotifyTarget(channel=channel):
            return f"@notify:{channel}"
        case CommandTarget():
            return lane_of(target)


def host_of(target: Target) -> str:
    """The host of a callback's URL, without user and port; empty for others."""
    try:
        return (urlsplit(target.url).hostname or "") if isinstance(target, HttpTarget) else ""
    except ValueError:
        return ""


def status_in(target: Target, error: str) -> str:
    """The status that an endpoint answered; what it said beside that is not ours to group by."""
    if not isinstance(target, HttpTarget):
        return ""
    # The URL comes first in such an error.
    status = STATUS.search(error, 0, END_CHARS)
    return status[1] if status else ""


def parsed(error: str) -> ParsedError:
    lines = ends_of(error).splitlines()
    last = max((at for at, line in enumerate(lines) if FRAME.match(line)), default=None)
    kind, message = kind_and_message(lines, last)
    return ParsedError(kind, message, place_in(lines))


def ends_of(error: str) -> str:
    if len(error) <= 2 * END_CHARS:
        return error
    return f"{error[:END_CHARS]}\n{error[-END_CHARS:]}"


def kind_and_message(lines: list[str], last_frame: int | None) -> tuple[str, str]:
    """The kind and the message: the first line after the last frame that is not its source."""
    if last_frame is None:
        return split_kind(next((line.strip() for line in lines if line.strip()), ""))
    for line in lines[last_frame + 1 :]:
        bare = line[lead.end() :] if (lead := MARGIN.match(line)) else line
        if bare.strip() and not bare.startswith((" ", "\t", "~", "^")):
            return split_kind(bare.strip())
    return "", ""


def split_kind(line: str) -> tuple[str, str]:
    """`pkg.Error: text` in two; a line that is only text has no kind."""
    found = KIND.fullmatch(line[:MESSAGE_CHARS_MAX])
    if found is None:
        return "", line[:MESSAGE_CHARS_MAX]
    return found[1].rpartition(".")[2], found[2] or ""


def place_in(lines: list[str]) -> str:
    """The innermost frame that is not a library's, else the innermost one; line numbers move."""
    frames = [found for line in lines if (found := FRAME.match(line)) is not None]
    own = [frame for frame in frames if LIBRARY.search(frame[1]) is None]
    if not frames:
        return ""
    frame = (own or frames)[-1]
    path = re.split(r"[\\/]", frame[1])
    # The folder of a release may have its number; the last two names stay.
    place = NUMBERS.sub("#", "/".join(path[-2:]))
    return f"{place} in {frame[2] or '<module>'}"[:PLACE_CHARS_MAX]


def generic(text: str) -> str:
    """The text with marks for what differs from one failure to the next, and blanks in one."""
    one_line = " ".join(text[:MESSAGE_CHARS_MAX].split())
    return VARIABLE.sub(lambda found: MARKS[found.lastgroup or ""], one_line)


def hour_of(at: datetime) -> int:
    """The number of the hour since the epoch, in UTC."""
    return int(at.astimezone(UTC).timestamp() // 3_600)


def with_change(record: FaultRecord | None, change: FaultChange) -> FaultRecord:
    """The record with more attempts; None is one that has had none yet."""
    if record is None:
        base = FaultRecord(
            fault=change.fault,
            task=change.task,
            queue=change.queue,
            title=change.title,
            place=change.place,
            first_at=change.first_at,
            last_at=change.last_at,
            process=change.process,
        )
        return with_change(base, change)
    is_newer = change.last_at >= record.last_at
    last_at = max(record.last_at, change.last_at)
    return msgspec.structs.replace(
        record,
        queue=change.queue if is_newer else record.queue,
        first_at=min(record.first_at, change.first_at),
        last_at=last_at,
        attempts=record.attempts + change.attempts,
        hours=hours_with(record, change, hour_of(last_at)),
        sample_job=change.sample_job if is_newer else record.sample_job,
    )


def hours_with(record: FaultRecord, change: FaultChange, last: int) -> tuple[int, ...]:
    """Attempts by hour, the last one in the hour `last`; without zeros at the begin."""
    counts = dict(change.hours)
    for back, count in enumerate(reversed(record.hours)):
        hour = hour_of(record.last_at) - back
        counts[hour] = counts.get(hour, 0) + count
    kept = [counts.get(hour, 0) for hour in range(last - HOURS_KEPT + 1, last + 1)]
    first = next((at for at, count in enumerate(kept) if count), len(kept))
    return tuple(kept[first:])


def hours_until(record: FaultRecord, now: datetime, hours: int = HOURS_KEPT) -> tuple[int, ...]:
    """Attempts in each of the last `hours` hours, the current one last."""
    since = hour_of(now) - hour_of(record.last_at)
    # Another process whose clock is ahead may have seen it in an hour that has not come here.
    counts = (*record.hours, *[0] * min(since, hours)) if since >= 0 else record.hours[:since]
    return (*[0] * (hours - len(counts)), *counts[-hours:])


def change_of(target: Target, queue: str, job_id: str, error: str, at: datetime) -> FaultChange:
    """One failed attempt."""
    fault = fault_of(target, error)
    return FaultChange(
        fault=fault.key,
        task=lane_of(target),
        queue=queue,
        title=fault.title,
        place=fault.place,
        first_at=at,
        last_at=at,
        attempts=1,
        hours={hour_of(at): 1},
        sample_job=JobId(job_id),
    )


def joined(one: FaultChange, more: FaultChange) -> FaultChange:
    """Both changes of one fault as one."""
    hours = dict(one.hours)
    for hour, count in more.hours.items():
        hours[hour] = hours.get(hour, 0) + count
    newer = more if more.last_at >= one.last_at else one
    return msgspec.structs.replace(
        newer,
        process=one.process,
        first_at=min(one.first_at, more.first_at),
        attempts=one.attempts + more.attempts,
        hours=hours,
    )


def with_attempt(
    change: FaultChange, queue: str, job_id: JobId, hour: int, at: datetime
) -> FaultChange:
    """The change with one more failed attempt of the same fault."""
    return msgspec.structs.replace(
        change,
        queue=queue,
        sample_job=job_id,
        first_at=min(change.first_at, at),
        last_at=max(change.last_at, at),
        attempts=change.attempts + 1,
        hours={**change.hours, hour: change.hours.get(hour, 0) + 1},
    )


def as_other(change: FaultChange) -> FaultChange:
    """The change as one of the fault that stands for all that there is no room for."""
    return msgspec.structs.replace(
        change, fault=OTHER, task=OTHER_TASK, title=OTHER_TITLE, place="", process=None
    )
