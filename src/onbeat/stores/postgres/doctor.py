"""Health checks of the server."""

from datetime import datetime
from typing import Final

from onbeat.ports.store import Finding
from onbeat.rules.dead_rows import DEAD_MIN
from onbeat.stores.postgres.migrate import migrations
from onbeat.stores.postgres.transaction import Transaction
from onbeat.stores.postgres.vacuum import row_counts
from onbeat.stores.sql.doctor import CLOCK_REMEDY, clock_offset, finding_of

VERSION_MIN = 130_000
SNAPSHOT_SECONDS_MAX = 600
CLOCK_SECONDS_MAX = 1.0
CONNECTIONS_FREE_MIN = 10
DEAD_MAX = 10 * DEAD_MIN


async def ping(transaction: Transaction) -> None:
    """A write with its commit: only that shows that the server accepts one."""
    await transaction.run(
        """
        INSERT INTO pings (id, count) VALUES (1, 1)
        ON CONFLICT (id) DO UPDATE SET count = pings.count + 1
        """
    )


async def present(transaction: Transaction) -> datetime:
    """Not `now()`, which is constant within a transaction."""
    read: datetime = await transaction.value("SELECT clock_timestamp()")
    return read


SETTINGS: Final = {
    "fsync": (
        ("on",),
        "accepted jobs can be lost, and the database damaged, at a power failure; set it on",
    ),
    "full_page_writes": (("on",), "pages can be torn at a power failure; set it on"),
    "synchronous_commit": (
        ("on", "local", "remote_write", "remote_apply"),
        "accepted jobs can be lost at a crash; set it on",
    ),
    "autovacuum": (("on",), "tables will grow and claims slow down; set it on"),
}
"""The good values of settings, and what to do about others."""


async def doctor(transaction: Transaction) -> list[Finding]:
    return [
        await version(transaction),
        *[await setting(transaction, name) for name in SETTINGS],
        await encoding(transaction),
        await oldest_snapshot(transaction),
        await dead_rows(transaction),
        await clock(transaction),
        await connections(transaction),
        await schema(transaction),
    ]


async def show(transaction: Transaction, name: str) -> str:
    return str(await transaction.value("SELECT current_setting($1)", name))


async def version(transaction: Transaction) -> Finding:
    number = int(await show(transaction, "server_version_num"))
    value = await show(transaction, "server_version")
    return finding_of("server version", value, "13 or newer is needed", ok=number >= VERSION_MIN)


async def setting(transaction: Transaction, name: str) -> Finding:
    good, remedy = SETTINGS[name]
    value = await show(transaction, name)
    return finding_of(name.replace("_", " "), value, remedy, ok=value in good)


async def encoding(transaction: Transaction) -> Finding:
    value = await show(transaction, "server_encoding")
    remedy = "not every text can be kept; create the database with UTF8"
    return finding_of("encoding", value, remedy, ok=value == "UTF8")


async def oldest_snapshot(transaction: Transaction) -> Finding:
    """An open snapshot keeps vacuum from removing rows deleted after it."""
    sql = """
        SELECT coalesce(max(extract(epoch FROM clock_timestamp() - xact_start)), 0)::float8
        FROM pg_stat_activity
        WHERE backend_xmin IS NOT NULL
          AND pid <> pg_backend_pid()
    """
    age = float(await transaction.value(sql))
    remedy = "a long transaction keeps vacuum from its work; end it (see pg_stat_activity)"
    return finding_of("oldest snapshot", f"{age:.0f} s", remedy, ok=age <= SNAPSHOT_SECONDS_MAX)


async def dead_rows(transaction: Transaction) -> Finding:
    """Many are left where an old snapshot still sees them, or where nobody removes them."""
    counts = await row_counts(transaction)
    value = f"{counts.dead:,} beside {counts.live:,} live jobs"
    remedy = (
        "claims read past them; end long transactions, and run the maintenance role"
        if counts.may_vacuum
        else "claims read past them; connect as the owner of the tables, so that the maintenance "
        "role may vacuum, or let the server look sooner (autovacuum_naptime = 10s)"
    )
    return finding_of("dead rows", value, remedy, ok=counts.dead <= DEAD_MAX + counts.live)


async def clock(transaction: Transaction) -> Finding:
    sql = "SELECT extract(epoch FROM clock_timestamp())::float8"
    offset = await clock_offset(lambda: transaction.value(sql))
    ok = abs(offset) <= CLOCK_SECONDS_MAX
    return finding_of("clock offset", f"{offset:+.3f} s", CLOCK_REMEDY, ok=ok)


async def connections(transaction: Transaction) -> Finding:
    used = await transaction.value(
        "SELECT count(*) FROM pg_stat_activity WHERE datname IS NOT NULL"
    )
    most = int(await show(transaction, "max_connections"))
    remedy = "few connections are left; raise max_connections or run fewer processes"
    ok = most - used >= CONNECTIONS_FREE_MIN
    return finding_of("connections", f"{used} of {most} used", remedy, ok=ok)


async def schema(transaction: Transaction) -> Finding:
    value = await transaction.value("SELECT max(version) FROM migrations")
    remedy = "open the store once with a user that may create tables"
    return finding_of("schema", f"version {value}", remedy, ok=value == len(migrations()))
