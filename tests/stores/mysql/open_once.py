"""Opens the store that the argument names, and pings it: one of many processes that do so at once."""

import asyncio
import sys

from onbeat.stores.mysql.store import MysqlStore


async def main(url: str) -> None:
    store = MysqlStore(url)
    sys.stdin.readline()
    await store.open()
    await store.ping()
    await store.close()


asyncio.run(main(sys.argv[1]))
