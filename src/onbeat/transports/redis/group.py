"""The consumer group of a stream, and the cleanup of dead consumers."""

from typing import Final

from onbeat.transports.redis.connection import Connection, Reply, checked_reply, is_error
from onbeat.transports.redis.messages import GROUP

CONSUMER_IDLE: Final = 3_600_000
"""Milliseconds without a read after which a consumer that holds nothing counts as dead."""

DELETE_EMPTY: Final = """
for _, consumer in ipairs(redis.call('XINFO', 'CONSUMERS', KEYS[1], ARGV[1])) do
  if consumer[2] ~= ARGV[2] and consumer[4] == 0 and consumer[6] > tonumber(ARGV[3]) then
    redis.call('XGROUP', 'DELCONSUMER', KEYS[1], ARGV[1], consumer[2])
  end
end
"""


async def make_group(connection: Connection, key: str, url: str) -> None:
    """Starts at the beginning of the stream: messages may have been published before."""
    (answer,) = await connection.run(("XGROUP", "CREATE", key, GROUP, "0", "MKSTREAM"))
    if not is_error(answer, "BUSYGROUP"):
        checked_reply(answer, url)


async def sweep_consumers(connection: Connection, key: str, *, kept: str) -> None:
    """Deletes dead consumers that hold nothing; does nothing if the server forbids scripts.

    In a script, since deleting a consumer while it takes a message would delete the message too.
    """
    await connection.run(("EVAL", DELETE_EMPTY, 1, key, GROUP, kept, CONSUMER_IDLE))


async def waiting(connection: Connection, key: str, url: str, *, given_back: str) -> int:
    """How many entries no consumer holds."""
    length, pending = await connection.run(("XLEN", key), ("XPENDING", key, GROUP))
    held = (
        0 if is_error(pending, "NOGROUP") else count_held(checked_reply(pending, url), given_back)
    )
    return max(0, int(checked_reply(length, url)) - held)


def count_held(pending: Reply, given_back: str) -> int:
    consumers = pending[3] or ()
    return sum(int(count) for name, count in consumers if name != given_back.encode())
