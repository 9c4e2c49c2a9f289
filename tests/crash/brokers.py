"""Brokers of our own that die, forget, fill up and come back."""

from typing import Protocol

from transports.rabbitmq import server as rabbitmq
from transports.redis import server as redis


class Server(Protocol):
    """`forget` drops all messages, `fill` leaves no room for more until `clear`."""

    url: str

    def start(self) -> None: ...

    def kill(self) -> None: ...

    def stop(self) -> None: ...

    def forget(self) -> None: ...

    def fill(self) -> None: ...

    def clear(self) -> None: ...


class RabbitMq(rabbitmq.Private):
    def forget(self) -> None:
        """Also its queues."""
        for word in ("stop_app", "reset", "start_app"):
            self.control(word)

    def fill(self) -> None:
        self.control("set_vm_memory_high_watermark", "absolute", "1MB")

    def clear(self) -> None:
        self.control("set_vm_memory_high_watermark", "0.4")


class Redis(redis.Private):
    def forget(self) -> None:
        with redis.client(self.url) as one:
            one.flushall()

    def fill(self) -> None:
        with redis.client(self.url) as one:
            one.config_set("maxmemory", 1)

    def clear(self) -> None:
        with redis.client(self.url) as one:
            one.config_set("maxmemory", 0)


KINDS = {"rabbitmq": RabbitMq, "redis": Redis}
