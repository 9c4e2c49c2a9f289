"""The servers of the benchmarks: their addresses, and the clean-up on them."""

import logging
import os
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from typing import Any, Final
from urllib.parse import urlsplit

import aiormq
import asyncmy
import asyncpg
import redis.asyncio

ADDRESSES: Final = {
    "PostgreSQL": ("ONBEAT_BENCH_POSTGRES", "postgresql://postgres@127.0.0.1:5432/postgres"),
    "MariaDB": ("ONBEAT_BENCH_MYSQL", "mysql://root@127.0.0.1:3306"),
    "RabbitMQ": ("ONBEAT_BENCH_RABBITMQ", "amqp://guest:guest@127.0.0.1:5672/"),
    "Redis": ("ONBEAT_BENCH_REDIS", "redis://127.0.0.1:6379/13"),
}
ANSWER_SECONDS: Final = 5

# This module reports a server that does not answer; the driver would report it again.
logging.getLogger("aiormq.connection").setLevel(logging.CRITICAL)


def url_of(server: str) -> str:
    return os.environ.get(*ADDRESSES[server])


async def answers(server: str, url: str) -> bool:
    """Prints a line if it does not."""
    try:
        await settings_of(url)
    except (OSError, asyncpg.PostgresError, aiormq.AMQPError, redis.RedisError) as error:
        place, (variable, _) = url.rpartition("@")[2], ADDRESSES[server]
        print(
            f"left out: what needs {server}, as none answers at {place}; {variable} may name "
            f"another ({str(error) or type(error).__name__})",
            flush=True,
        )
        return False
    return True


async def settings_of(url: str) -> dict[str, Any]:
    """Facts about the server that help to read the figures."""
    match url.partition("://")[0]:
        case "amqp" | "amqps":
            return await rabbitmq_settings(url)
        case "redis" | "rediss":
            return await redis_settings(url)
        case _:
            return await postgres_settings(url)


async def postgres_settings(url: str) -> dict[str, Any]:
    names = ("server_version", "fsync", "synchronous_commit", "shared_buffers", "autovacuum")
    db = await asyncpg.connect(url, timeout=ANSWER_SECONDS)
    try:
        return {name: await db.fetchval(f"SHOW {name}") for name in names}
    finally:
        await db.close()


async def rabbitmq_settings(url: str) -> dict[str, Any]:
    db = await aiormq.connect(url)
    try:
        return {"version": db.server_properties["version"], "messages": "durable"}
    finally:
        await db.close()


async def redis_settings(url: str) -> dict[str, Any]:
    async with redis.asyncio.Redis.from_url(url) as db:
        known = await db.info()
        return {
            "version": known["redis_version"],
            "append only file": bool(known["aof_enabled"]),
            "policy": known["maxmemory_policy"],
        }


@asynccontextmanager
async def a_mysql_database() -> AsyncGenerator[str, None]:
    """The URL of a database that is dropped at the end."""
    root = url_of("MariaDB")
    parts = urlsplit(root)
    name = f"onbeat_bench_{os.getpid()}"
    db = await asyncmy.connect(
        host=parts.hostname,
        port=parts.port or 3306,
        user=parts.username,
        password=parts.password or "",
        autocommit=True,
    )
    try:
        await db.cursor().execute(f"CREATE DATABASE {name}")
        yield f"{root}/{name}"
    finally:
        await db.cursor().execute(f"DROP DATABASE {name}")
        db.close()


async def delete_all(url: str, name: str, queues: Sequence[str], exchanges: Sequence[str]) -> None:
    """Delete the queues and exchanges; in Redis every key that contains the name."""
    if url.startswith("amqp"):
        await delete_queues(url, queues, exchanges)
    else:
        await delete_keys(url, name)


async def delete_queues(url: str, queues: Sequence[str], exchanges: Sequence[str]) -> None:
    connection = await aiormq.connect(url)
    try:
        channel = await connection.channel()
        for queue in queues:
            await channel.queue_delete(queue)
        for exchange in exchanges:
            await channel.exchange_delete(exchange)
    finally:
        await connection.close()


async def delete_keys(url: str, name: str) -> None:
    async with redis.asyncio.Redis.from_url(url) as db:
        keys = [key async for key in db.scan_iter(match=f"*{name}*", count=1_000)]
        if keys:
            await db.unlink(*keys)
