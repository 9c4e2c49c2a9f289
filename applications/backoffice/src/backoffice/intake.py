"""Billing tasks that a publisher of the old system sends to RabbitMQ.

Each becomes a job with the key that the distributor gives it, and is acknowledged when the job is
stored: so a message that comes again, or for a bill that was distributed here, adds nothing.
"""

import hashlib
import json
import re
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, Final
from urllib.parse import parse_qsl, urlencode, urlsplit

import aio_pika
from aio_pika.abc import AbstractIncomingMessage, AbstractQueue
from aio_pika.exceptions import ChannelNotFoundEntity

from backoffice.tasks import BillingTask

PORTION: Final = 500
ID_MAX: Final = 2**63 - 1
TEXT_CHARS_MAX: Final = 255
TYPES: Final = {
    int: f"a whole number from 0 to {ID_MAX}",
    str: f"a text of {TEXT_CHARS_MAX} characters at most",
}
DEAD_BYTES_MAX: Final = 50_000
"""So much of a malformed message is kept, as it is stored: a control character takes six."""
OF_CALENDAR: Final = "run_id names a calendar period, and bills are by anniversary"
RUN_LOCK: Final = re.compile(r"billing_run_lock:(MONTHLY|ANNUAL):(\d{4})(?:-(\d\d))?")


class MalformedError(ValueError):
    """The message is no billing task; it names the field."""


@dataclass(frozen=True)
class DeadMessage:
    """A message that will never be a task."""

    body: str
    reason: str

    @property
    def key(self) -> str:
        return f"refused:{hashlib.sha256(self.body.encode()).hexdigest()}"


def read_message(body: bytes, *, by_anniversary: bool = False) -> BillingTask | DeadMessage:
    """With `by_anniversary` there are no bills of calendar months and years, which publishers send.

    So none is lost: each subscription is billed for its own months.
    """
    try:
        task = read_task(body)
    except MalformedError as error:
        return DeadMessage(kept(body), str(error))
    return DeadMessage(kept(body), OF_CALENDAR) if by_anniversary else task


def kept(body: bytes) -> str:
    text = body.decode("utf-8", "replace")[:DEAD_BYTES_MAX]
    lengths = range(len(text) + 1)
    return text[: bisect_right(lengths, DEAD_BYTES_MAX, key=lambda n: stored_bytes(text[:n])) - 1]


def stored_bytes(text: str) -> int:
    return len(json.dumps(text))


def read_task(body: bytes) -> BillingTask:
    """Raises `MalformedError`."""
    try:
        values: Any = json.loads(body)
    except (ValueError, RecursionError) as error:
        raise MalformedError("the body is not JSON") from error
    if not isinstance(values, dict):
        raise MalformedError("the body is not an object")
    task = BillingTask(
        **{field.name: value_of(values, field.name) for field in fields(BillingTask)}
    )
    return with_own_names(task)


def value_of(values: Any, name: str) -> Any:
    if name not in values:
        raise MalformedError(f"{name} is missing")
    wanted = BillingTask.__annotations__[name]
    if type(values[name]) is not wanted or not fits(values[name]):
        raise MalformedError(f"{name} is not {TYPES[wanted]}")
    return values[name]


def fits(value: Any) -> bool:
    """Into the column, and into a text that can be sent on."""
    if isinstance(value, int):
        return 0 <= value <= ID_MAX
    return len(value) <= TEXT_CHARS_MAX and value == value.encode(errors="replace").decode()


def with_own_names(task: BillingTask) -> BillingTask:
    """The old run id names the month of the run; ours names the period that is billed."""
    type = task.billing_type.upper()
    if type not in {"MONTHLY", "ANNUAL"}:
        raise MalformedError("billing_type is MONTHLY or ANNUAL")
    if task.action not in {"renewal", "upgrade"}:
        raise MalformedError("action is renewal or upgrade")
    return replace(task, billing_type=type, run_id=own_run_id(task.run_id, type))


def own_run_id(text: str, type: str) -> str:
    match = RUN_LOCK.fullmatch(text)
    if match is None or match[1] != type or (match[3] is None) != (type == "ANNUAL"):
        raise MalformedError(f"run_id is not such as billing_run_lock:{type}:...")
    if match[3] is None:
        return f"ANNUAL:{int(match[2]) - 1:04}"
    months = int(match[2]) * 12 + int(match[3]) - 2
    if not 1 <= int(match[3]) <= 12:
        raise MalformedError("run_id has a month that is not there")
    return f"MONTHLY:{months // 12:04}-{months % 12 + 1:02}"


class OldQueue:
    """The queue of the old publishers. Messages that are not acknowledged come again."""

    def __init__(self, connection: aio_pika.abc.AbstractConnection, queue: AbstractQueue) -> None:
        self.connection = connection
        self.queue = queue

    async def portion(self) -> Sequence[AbstractIncomingMessage]:
        """What waits now."""
        taken: list[AbstractIncomingMessage] = []
        while len(taken) < PORTION and (message := await self.queue.get(fail=False)) is not None:
            taken.append(message)
        return taken

    async def close(self) -> None:
        await self.connection.close()


async def open_queue(url: str, name: str) -> OldQueue:
    """As its publishers have declared it; else durable, as they would.

    A `prefix` of the URL, which Onbeat has for tests, begins this name as all others.
    """
    parts = urlsplit(url)
    options = dict(parse_qsl(parts.query))
    name = options.pop("prefix", "") + name
    connection = await aio_pika.connect(parts._replace(query=urlencode(options)).geturl())
    try:
        try:
            channel = await connection.channel()
            queue = await channel.declare_queue(name, passive=True)
        except ChannelNotFoundEntity:
            channel = await connection.channel()
            queue = await channel.declare_queue(name, durable=True)
    except BaseException:
        await connection.close()
        raise
    return OldQueue(connection, queue)
