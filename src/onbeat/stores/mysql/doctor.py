"""Health checks of the server."""

import time
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
    ok = server_version(transaction) >= (MARIADB_MIN if is_mariadb(transaction.db) else MYSQL_MIN)
    return Finding(
        name="server version",
        ok=ok,
        value=server_name(transaction),
        remedy=None if ok else "upgrade to MariaDB 10.6, MySQL 8.0.16 or newer",
    )


async def schema(transaction: Transaction) -> Finding:
    result = await version(transaction)
    ok = result == len(migrations())
    return Finding(
        name="schema",
        ok=ok,
        value=str(result),
        remedy=None if ok else f"this program needs {len(migrations())}; run `onbeat migrate`",
    )


async def flush(transaction: Transaction) -> Finding:
    value = await transaction.value("SELECT @@GLOBAL.innodb_flush_log_at_trx_commit")
    ok = value == 1
    return Finding(
        name="innodb_flush_log_at_trx_commit",
        ok=ok,
        value=str(value),
        remedy=None if ok else "accepted jobs can be lost at a power failure; set it to 1",
    )


async def binlog(transaction: Transaction) -> Finding:
    """Without a binary log its sync interval does not matter."""
    (logged, synced), *_ = await transaction.rows("SELECT @@GLOBAL.log_bin, @@GLOBAL.sync_binlog")
    ok = not logged or synced == 1
    return Finding(
        name="sync_binlog",
        ok=ok,
        value=str(synced) if logged else f"{synced} (no binary log)",
        remedy=None if ok else "log and data can differ after a power failure; set it to 1",
    )


async def doublewrite(transaction: Transaction) -> Finding:
    value = str(await transaction.value("SELECT @@GLOBAL.innodb_doublewrite"))
    ok = value.upper() not in ("0", "OFF")
    return Finding(
        name="innodb_doublewrite",
        ok=ok,
        value=value,
        remedy=None if ok else "a page can be torn at a power failure; turn it on",
    )


async def isolation(transaction: Transaction) -> Finding:
    """The isolation level of our own sessions; MariaDB uses the variable's older name."""
    names = {True: "tx_isolation", False: "transaction_isolation"}
    value = await transaction.value(f"SELECT @@SESSION.{names[is_mariadb(transaction.db)]}")
    ok = value == "READ-COMMITTED"
    return Finding(
        name="isolation",
        ok=ok,
        value=str(value),
        remedy=None
        if ok
        else "a proxy changes the session's settings; connect to the server itself",
    )


async def clock(transaction: Transaction) -> Finding:
    """The difference from our clock at the middle of the round trip."""
    sent_at = time.time()
    theirs = float(await transaction.value("SELECT UNIX_TIMESTAMP(NOW(6))"))
    offset = theirs - (sent_at + time.time()) / 2
    ok = abs(offset) <= OFFSET_SECONDS_MAX
    return Finding(
        name="clock offset",
        ok=ok,
        value=f"{offset * 1_000:+.0f} ms",
        remedy=None
        if ok
        else "jobs go by the server's clock, ids and logs by this machine's; synchronise them",
    )
