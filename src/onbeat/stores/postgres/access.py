"""The store's secret."""

from onbeat.stores.postgres.transaction import Transaction


async def secret(transaction: Transaction, fresh: bytes) -> bytes:
    await transaction.run("INSERT INTO secrets VALUES ('tokens', $1) ON CONFLICT DO NOTHING", fresh)
    return bytes(await transaction.value("SELECT value FROM secrets WHERE name = 'tokens'"))
