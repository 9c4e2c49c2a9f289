"""The pool of connections to PostgreSQL.

The driver's own pool asks the server to reset a connection each time that it is given back, which
would double the round trips; here nothing is left behind that needs it.
"""

from onbeat.model.errors import Unavailable
from onbeat.stores.postgres.connection import Database, connect
from onbeat.stores.postgres.faults import BROKEN, unavailable
from onbeat.stores.postgres.place import Place
from onbeat.stores.sql import pool

Pool = pool.Pool[Database]


class PostgresDriver:
    """How connections to PostgreSQL are made and ended."""

    def __init__(self, place: Place) -> None:
        self.place = place

    async def connect(self) -> Database:
        try:
            return await connect(self.place)
        except Exception as error:
            raise self.unavailable(error) from error

    def is_open(self, connection: Database) -> bool:
        return not connection.is_closed()

    async def close(self, connection: Database) -> None:
        await connection.close(timeout=pool.CLOSE_SECONDS)

    def throw_away(self, connection: Database) -> None:
        connection.terminate()

    def is_lost(self, error: BaseException) -> bool:
        return isinstance(error, BROKEN)

    def unavailable(self, error: BaseException) -> Unavailable:
        return unavailable(error, self.place.url)


def pool_of(place: Place, limit: int) -> Pool:
    return Pool(PostgresDriver(place), limit)
