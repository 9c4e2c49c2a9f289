"""A connection pool for MySQL."""

from onbeat.model.errors import Unavailable
from onbeat.stores.mysql.connection import Database, connect
from onbeat.stores.mysql.dsn import Dsn
from onbeat.stores.mysql.errors import is_lost, unavailable
from onbeat.stores.sql import pool

Pool = pool.Pool[Database]


class MysqlDriver:
    def __init__(self, dsn: Dsn) -> None:
        self._place = dsn

    async def connect(self) -> Database:
        return await connect(self._place)

    def is_open(self, connection: Database) -> bool:
        return connection.connected

    async def close(self, connection: Database) -> None:
        await connection.ensure_closed()

    def discard(self, connection: Database) -> None:
        connection.close()

    def is_lost(self, error: BaseException) -> bool:
        return is_lost(error)

    def unavailable(self, error: BaseException) -> Unavailable:
        return unavailable(error, self._place.url)


def pool_of(dsn: Dsn, limit: int) -> Pool:
    return Pool(MysqlDriver(dsn), limit)
