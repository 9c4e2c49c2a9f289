"""A cluster of Kafka in this process: the one that librdkafka has for its own tests.

It stands inside the wheel of confluent-kafka, which has no Python for it; so it is called by ctypes.
It keeps all in memory, some 5 MB of a partition, and answers no administrator.
"""

import ctypes
from pathlib import Path
from typing import Final

import confluent_kafka

LIBRARIES: Final = Path(confluent_kafka.__file__).parent.with_name("confluent_kafka.libs")
PRODUCER: Final = 0
BROKER: Final = 1
# Numbers that the protocol gives to requests.
PRODUCE: Final = 0
OFFSET_COMMIT: Final = 8


def library() -> ctypes.CDLL:
    (file,) = LIBRARIES.glob("librdkafka-*")
    result = ctypes.CDLL(str(file))
    pointer, text, number = ctypes.c_void_p, ctypes.c_char_p, ctypes.c_int32
    result.rd_kafka_conf_new.restype = pointer
    result.rd_kafka_conf_set.argtypes = [pointer, text, text, text, ctypes.c_size_t]
    result.rd_kafka_new.restype = pointer
    result.rd_kafka_new.argtypes = [ctypes.c_int, pointer, text, ctypes.c_size_t]
    result.rd_kafka_destroy.argtypes = [pointer]
    result.rd_kafka_mock_cluster_new.restype = pointer
    result.rd_kafka_mock_cluster_new.argtypes = [pointer, ctypes.c_int]
    result.rd_kafka_mock_cluster_destroy.argtypes = [pointer]
    result.rd_kafka_mock_cluster_bootstraps.restype = text
    result.rd_kafka_mock_cluster_bootstraps.argtypes = [pointer]
    result.rd_kafka_mock_group_initial_rebalance_delay_ms.argtypes = [pointer, number]
    result.rd_kafka_mock_topic_create.argtypes = [pointer, text, ctypes.c_int, ctypes.c_int]
    result.rd_kafka_mock_topic_delete.argtypes = [pointer, text]
    result.rd_kafka_mock_broker_set_down.argtypes = [pointer, number]
    result.rd_kafka_mock_broker_set_up.argtypes = [pointer, number]
    result.rd_kafka_mock_push_request_errors_array.argtypes = [
        pointer,
        ctypes.c_int16,
        ctypes.c_size_t,
        ctypes.POINTER(ctypes.c_int),
    ]
    return result


class Cluster:
    """One broker. `cut` and `mend` end and let through its connections; what it has it keeps."""

    def __init__(self) -> None:
        self.library = library()
        settings = self.library.rd_kafka_conf_new()
        reason = ctypes.create_string_buffer(512)
        self.library.rd_kafka_conf_set(settings, b"log_level", b"2", reason, 512)
        self.owner = self.library.rd_kafka_new(PRODUCER, settings, reason, 512)
        assert self.owner, reason.value
        self.cluster = self.library.rd_kafka_mock_cluster_new(self.owner, 1)
        self.servers: str = self.library.rd_kafka_mock_cluster_bootstraps(self.cluster).decode()
        self.library.rd_kafka_mock_group_initial_rebalance_delay_ms(self.cluster, 0)

    def end(self) -> None:
        self.library.rd_kafka_mock_cluster_destroy(self.cluster)
        self.library.rd_kafka_destroy(self.owner)

    def make_topic(self, name: str, partitions: int) -> None:
        assert not self.library.rd_kafka_mock_topic_create(
            self.cluster, name.encode(), partitions, 1
        )

    def delete_topic(self, name: str) -> None:
        assert not self.library.rd_kafka_mock_topic_delete(self.cluster, name.encode())

    def refuse(self, request: int, *codes: int) -> None:
        """The next requests of this kind are answered with these errors."""
        array = (ctypes.c_int * len(codes))(*codes)
        self.library.rd_kafka_mock_push_request_errors_array(
            self.cluster, request, len(codes), array
        )

    async def disconnect(self) -> None:
        assert not self.library.rd_kafka_mock_broker_set_down(self.cluster, BROKER)

    async def reconnect(self) -> None:
        assert not self.library.rd_kafka_mock_broker_set_up(self.cluster, BROKER)

    def url(self, **options: object) -> str:
        """Topics are made by the cluster, with four partitions; a group settles in a second."""
        chosen = {
            "partitions": 0,
            "timeout": 3,
            "session.timeout.ms": 2_000,
            "heartbeat.interval.ms": 200,
            "fetch.wait.max.ms": 50,
            **{name.replace("_", "."): value for name, value in options.items()},
        }
        query = "&".join(f"{name}={value}" for name, value in chosen.items())
        return f"kafka://{self.servers}?{query}"
