"""Runs boto3 on threads, with timeouts."""

import asyncio
from collections.abc import Callable
from concurrent.futures import Executor, ThreadPoolExecutor
from typing import TYPE_CHECKING, Final, TypeVar

from boto3.session import Session
from botocore.config import Config
from botocore.exceptions import BotoCoreError

from onbeat.model.errors import Misconfigured, Unavailable
from onbeat.transports.sqs.config import SqsConfig
from onbeat.transports.sqs.errors import FAULTS, unavailable

if TYPE_CHECKING:  # the package of types is installed for type checkers only
    from types_boto3_sqs.client import SQSClient

THREADS: Final = 8  # calls at once; each carries up to ten messages
POLLS_MAX: Final = 10  # long polls at once of one consumer, on threads of its own
CONNECTIONS: Final = 50  # kept alive; more may be open at once
CONNECT_SECONDS: Final = 3
TRIES: Final = 3  # attempts by boto3 itself, with growing delays

Answer = TypeVar("Answer")


class Connection:
    """The clients of one broker.

    A call waits for at most `timeout` seconds, whatever boto3 does; its thread then ends by boto3's
    own timeouts.
    """

    def __init__(self, config: SqsConfig) -> None:
        self.config = config
        self.threads = ThreadPoolExecutor(THREADS, thread_name_prefix="onbeat-sqs")
        # The timeout of a call does not run while it waits for a thread.
        self.room = asyncio.Semaphore(THREADS)
        self.caller: SQSClient | None = None
        self.poller: SQSClient | None = None

    async def open(self) -> None:
        """Loads boto3's own settings. Raises `Misconfigured`."""
        loop = asyncio.get_running_loop()
        try:
            self.caller, self.poller = await loop.run_in_executor(self.threads, self.clients)
        except (BotoCoreError, ValueError) as error:
            raise Misconfigured(f"boto3 refused its settings: {error}", key="transport") from error

    def clients(self) -> tuple["SQSClient", "SQSClient"]:
        timeout, session = self.config.timeout, Session()
        return (
            client(self.config, session, read_seconds=timeout, tries=TRIES),
            client(self.config, session, read_seconds=self.config.wait + timeout, tries=1),
        )

    async def call(self, act: Callable[["SQSClient"], Answer]) -> Answer:
        """Raises `Unavailable` and its subclasses in `errors`."""
        if self.caller is None:
            raise Unavailable(f"SQS {self.config.url} is closed")
        async with self.room:
            return await self.run(self.threads, self.caller, act, self.config.timeout)

    async def poll(
        self, threads: Executor, act: Callable[["SQSClient"], Answer], seconds: float
    ) -> Answer:
        """The same for a call that SQS answers after `seconds`, on the caller's own threads."""
        if self.poller is None:
            raise Unavailable(f"SQS {self.config.url} is closed")
        return await self.run(threads, self.poller, act, seconds + self.config.timeout)

    async def run(
        self,
        threads: Executor,
        client: "SQSClient",
        act: Callable[["SQSClient"], Answer],
        seconds: float,
    ) -> Answer:
        loop = asyncio.get_running_loop()
        try:
            async with asyncio.timeout(seconds):
                return await loop.run_in_executor(threads, act, client)
        except FAULTS as error:
            raise unavailable(error, self.config.url) from error.__cause__

    def close(self) -> None:
        self.threads.shutdown(wait=False, cancel_futures=True)
        for client in (self.caller, self.poller):
            if client is not None:
                client.close()
        self.caller = self.poller = None


def client(config: SqsConfig, session: Session, *, read_seconds: int, tries: int) -> "SQSClient":
    # boto3 has clients for every service; only the types of this one are installed.
    return session.client(  # pyright: ignore[reportUnknownMemberType]
        "sqs",
        region_name=config.region,
        endpoint_url=config.endpoint,
        config=Config(
            connect_timeout=min(CONNECT_SECONDS, config.timeout),
            read_timeout=read_seconds,
            retries={"mode": "standard", "total_max_attempts": tries},
            max_pool_connections=CONNECTIONS,
            tcp_keepalive=True,
        ),
    )
