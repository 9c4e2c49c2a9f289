"""The store's secret."""

from onbeat.stores.mysql.transaction import Transaction


async def secret(transaction: Transaction, fresh: bytes) -> bytes:
    sql = "INSERT INTO secrets VALUES ('tokens', %s) ON DUPLICATE KEY UPDATE name = name"
    await transaction.run(sql, (fresh,))
    # A locking read: a plain one may miss another process's commit.
    sql = "SELECT value FROM secrets WHERE name = 'tokens' FOR UPDATE"
    return bytes(await transaction.value(sql))
