"""Health checks of the server."""

from datetime import UTC, datetime

from onbeat.model.errors import Unavailable
from onbeat.ports.store import Finding
from onbeat.stores.mysql.connection import is_mariadb
from onbeat.stores.mysql.migrate import (
    MARIADB_MIN,
    MYSQL_MIN,
    migrations,
    server_name,
    server_version,
    version,
)
from onbeat.stores.mysql.transaction import Transaction
from onbeat.stores.sql.doctor import CLOCK_REMEDY, clock_offset, finding_of

OFFSET_SECONDS_MAX = 0.5


async def ping(transaction: Transaction) -> None:
    """A write with its commit: only that shows that the server accepts one."""
    if not await transaction.run("UPDATE marks SET count = count + 1 WHERE name = 'ping'"):
        raise Unavailable("the row for `ping` is gone; was the database altered?")


async def present(transaction: Transaction) -> datetime:
    read: datetime = await transaction.value("SELECT UTC_TIMESTAMP(6)")
    return read.replace(tzinfo=UTC)


async def doctor(transaction: Transaction) -> list[Finding]:
    return [
        server(transaction),
        await schema(transaction),
        await flush(transaction),
        await binlog(transaction),
        await doublewrite(transaction),
        await isolation(transaction),
        await clock(transaction),
    ]


def server(transaction: Transaction) -> Finding:
    least = MARIADB_MIN if is_mariadb(transaction.db) else MYSQL_MIN
    ok = server_version(transaction) >= least
    remedy = "upgrade to MariaDB 10.6, MySQL 8.0.16 or newer"
    return finding_of("server version", server_name(transaction), remedy, ok=ok)


async def schema(transaction: Transaction) -> Finding:
    result, known = await version(transaction), len(migrations())
    remedy = f"this program needs {known}; run `onbeat migrate`"
    return finding_of("schema", result, remedy, ok=result == known)


async def flush(transaction: Transaction) -> Finding:
    name = "innodb_flush_log_at_trx_commit"
    value = await transaction.value(f"SELECT @@GLOBAL.{name}")
    remedy = "accepted jobs can be lost at a power failure; set it to 1"
    return finding_of(name, value, remedy, ok=value == 1)


async def binlog(transaction: Transaction) -> Finding:
    """Without a binary log its sync interval does not matter."""
    (logged, synced), *_ = await transaction.rows("SELECT @@GLOBAL.log_bin, @@GLOBAL.sync_binlog")
    value = synced if logged else f"{synced} (no binary log)"
    remedy = "log and data can differ after a power failure; set it to 1"
    return finding_of("sync_binlog", value, remedy, ok=not logged or synced == 1)


async def doublewrite(transaction: Transaction) -> Finding:
    value = str(await transaction.value("SELECT @@GLOBAL.innodb_doublewrite"))
    remedy = "a page can be torn at a power failure; turn it on"
    return finding_of("innodb_doublewrite", value, remedy, ok=value.upper() not in ("0", "OFF"))


async def isolation(transaction: Transaction) -> Finding:
    """The isolation level of our own sessions; MariaDB uses the variable's older name."""
    name = "tx_isolation" if is_mariadb(transaction.db) else "transaction_isolation"
    value = await transaction.value(f"SELECT @@SESSION.{name}")
    remedy = "a proxy changes the session's settings; connect to the server itself"
    return finding_of("isolation", value, remedy, ok=value == "READ-COMMITTED")


async def clock(transaction: Transaction) -> Finding:
    async def read() -> float:
        return float(await transaction.value("SELECT UNIX_TIMESTAMP(NOW(6))"))

    offset = await clock_offset(read)
    ok = abs(offset) <= OFFSET_SECONDS_MAX
    return finding_of("clock offset", f"{offset * 1_000:+.0f} ms", CLOCK_REMEDY, ok=ok)
