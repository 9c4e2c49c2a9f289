"""A connection pool for PostgreSQL.

The driver's own pool resets a connection on the server each time it is returned, which would double
the round trips; this store leaves no state that needs a reset.
"""

from onbeat.model.errors import Unavailable
from onbeat.stores.postgres.connection import Database, connect
from onbeat.stores.postgres.dsn import Dsn
from onbeat.stores.postgres.errors import BROKEN, unavailable
from onbeat.stores.sql import pool

Pool = pool.Pool[Database]


class PostgresDriver:
    """Opens and closes connections to PostgreSQL."""

    def __init__(self, dsn: Dsn) -> None:
        self.place = dsn

    async def connect(self) -> Database:
        try:
            return await connect(self.place)
        except Exception as error:
            raise self.unavailable(error) from error

    def is_open(self, connection: Database) -> bool:
        return not connection.is_closed()

    async def close(self, connection: Database) -> None:
        await connection.close(timeout=pool.CLOSE_SECONDS)

    def discard(self, connection: Database) -> None:
        connection.terminate()

    def is_lost(self, error: BaseException) -> bool:
        return isinstance(error, BROKEN)

    def unavailable(self, error: BaseException) -> Unavailable:
        return unavailable(error, self.place.url)


def pool_of(dsn: Dsn, limit: int) -> Pool:
    return Pool(PostgresDriver(dsn), limit)
