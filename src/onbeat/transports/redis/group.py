"""The consumer group of a stream, and consumers that nobody is any more."""

from typing import Final

from onbeat.transports.redis.entries import GROUP
from onbeat.transports.redis.wire import Reply, Wire, good, is_error

CONSUMER_IDLE: Final = 3_600_000
"""Milliseconds without a read after which a consumer that holds nothing is gone."""

DELETE_EMPTY: Final = """
for _, consumer in ipairs(redis.call('XINFO', 'CONSUMERS', KEYS[1], ARGV[1])) do
  if consumer[2] ~= ARGV[2] and consumer[4] == 0 and consumer[6] > tonumber(ARGV[3]) then
    redis.call('XGROUP', 'DELCONSUMER', KEYS[1], ARGV[1], consumer[2])
  end
end
"""


async def make_group(wire: Wire, key: str, url: str) -> None:
    """From the beginning of the stream: messages may have been published before."""
    (answer,) = await wire.ask(("XGROUP", "CREATE", key, GROUP, "0", "MKSTREAM"))
    if not is_error(answer, "BUSYGROUP"):
        good(answer, url)


async def sweep_consumers(wire: Wire, key: str, *, kept: str) -> None:
    """Deletes those that died long ago and hold nothing. Where scripts are forbidden, they stay.

    In a script, since a consumer that is deleted while it takes a message takes it along.
    """
    await wire.ask(("EVAL", DELETE_EMPTY, 1, key, GROUP, kept, CONSUMER_IDLE))


async def waiting(wire: Wire, key: str, url: str, *, given_back: str) -> int:
    """How many entries no consumer holds."""
    length, pending = await wire.ask(("XLEN", key), ("XPENDING", key, GROUP))
    held = 0 if is_error(pending, "NOGROUP") else count_held(good(pending, url), given_back)
    return max(0, int(good(length, url)) - held)


def count_held(pending: Reply, given_back: str) -> int:
    consumers = pending[3] or ()
    return sum(int(count) for name, count in consumers if name != given_back.encode())
