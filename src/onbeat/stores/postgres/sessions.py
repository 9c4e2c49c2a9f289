"""The sessions of processes on the server, which end with their process.

The names stand in `pg_stat_activity`, which every user may read; advisory locks would tell less:
who waits for one holds a snapshot meanwhile, which keeps the server from cleaning its tables.
"""

from typing import Any, Final

from onbeat.model.session_look import SessionLook
from onbeat.stores.postgres.connection import APPLICATION, Database, Dsn, connect
from onbeat.stores.postgres.errors import refusal

VERSION_MIN: Final = 150_000
"""Older servers count ended sessions up to half a second late, or not at all."""

WATCHER: Final = "watcher"

# The counts must not be older than the list: a session is counted before it leaves the list.
LOOK = f"""
    SELECT coalesce(array_agg(DISTINCT split_part(application_name, ' ', 2)), '{{}}'),
           count(DISTINCT application_name) FILTER (WHERE application_name LIKE '% {WATCHER}'),
           pg_stat_get_db_sessions_killed(here.id) + pg_stat_get_db_sessions_fatal(here.id),
           pg_stat_get_db_sessions_abandoned(here.id)
    FROM (SELECT oid AS id FROM pg_database WHERE datname = current_database()) AS here
    LEFT JOIN pg_stat_get_activity(NULL) ON application_name LIKE '{APPLICATION} %'
    GROUP BY here.id
"""  # noqa: S608  no value in it

ROUTE = """
    SELECT pg_backend_pid(), coalesce(host(inet_client_addr()), ''), inet_client_port(),
           current_setting('server_version_num')::int
"""


class Sessions:
    """Implements `ServerSessions`, with a connection of its own for looks."""

    def __init__(self, dsn: Dsn) -> None:
        self._dsn = dsn
        self._is_direct = False
        self._db: Database | None = None

    @property
    def name(self) -> str:
        return self._dsn.session if self._is_direct else ""

    async def check_route(self, db: Database) -> None:
        """Find out from one of the connections whether they prove that their process lives."""
        (row,) = await db.fetch(ROUTE)
        pid, address, port, version = row
        direct = (pid, address, port) == (db.get_server_pid(), *own_address(db))
        self._is_direct = direct and version >= VERSION_MIN

    async def look(self) -> SessionLook:
        try:
            if self._db is None:
                self._db = await connect(self._dsn, WATCHER)
            (row,) = await self._db.fetch(LOOK)
        except BaseException as error:
            self.close()
            if not isinstance(error, Exception):
                raise
            refused = refusal(error, self._dsn.url)
            raise refused from refused.__cause__
        names, watchers, ended, lost = row
        return SessionLook(frozenset(names), watchers, ended, lost)

    def close(self) -> None:
        db, self._db = self._db, None
        if db is not None:
            db.terminate()


def own_address(db: Database) -> tuple[str, int | None]:
    """The address of our end of the connection; another one at the server means a proxy between.

    A Unix socket has none.
    """
    transport: Any = getattr(db, "_transport", None)  # the driver does not show it otherwise
    address: tuple[str, int] | str | None = None
    if transport is not None:
        address = transport.get_extra_info("sockname")
    return (address[0], address[1]) if isinstance(address, tuple) else ("", None)
