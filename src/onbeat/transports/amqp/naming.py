"""Names of queues, as the driver takes them."""

from typing import Final

from onbeat.transports.amqp.place import Place
from onbeat.transports.naming import spelled

CHARS_MAX: Final = 255
MARK: Final = "#"
SWAPS: Final = {char: char for char in "-_.:@,/+ "} | {MARK: MARK + MARK}
EMPTY: Final = MARK + "-"  # the broker would invent a name

DEAD: Final = "onbeat.dead"
DEAD_EXCHANGE: Final = "onbeat.dlx"


def name_of(queue: str, place: Place) -> str:
    """The name with the prefix, in characters that every client of AMQP can name."""
    return spelled(place.prefix + queue, swaps=SWAPS, mark=MARK, room=CHARS_MAX) or EMPTY


def dead_queue(place: Place) -> str:
    return name_of(DEAD, place)


def dead_exchange(place: Place) -> str:
    return name_of(DEAD_EXCHANGE, place)
