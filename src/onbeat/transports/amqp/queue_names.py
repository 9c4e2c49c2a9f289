"""Names of queues in the form that the driver accepts."""

from typing import Final

from onbeat.transports.amqp.config import RabbitMqConfig
from onbeat.transports.queue_names import encode_name

CHARS_MAX: Final = 255
MARK: Final = "#"
SWAPS: Final = {char: char for char in "-_.:@,/+ "} | {MARK: MARK + MARK}
EMPTY: Final = MARK + "-"  # for an empty name, the broker would generate one

OWN_PREFIX: Final = "onbeat."
DEAD: Final = "onbeat.dead"
DEAD_EXCHANGE: Final = "onbeat.dlx"


def name_of(queue: str, config: RabbitMqConfig) -> str:
    """The name with the prefix, in characters that every AMQP client accepts."""
    return encode_name(config.prefix + queue, swaps=SWAPS, mark=MARK, room=CHARS_MAX) or EMPTY


def is_own_queue(queue: str) -> bool:
    """Whether Onbeat declares the queue with arguments of its own."""
    return queue.startswith(OWN_PREFIX)


def dead_queue(config: RabbitMqConfig) -> str:
    return name_of(DEAD, config)


def dead_exchange(config: RabbitMqConfig) -> str:
    return name_of(DEAD_EXCHANGE, config)
