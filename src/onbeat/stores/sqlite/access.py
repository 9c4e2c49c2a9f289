"""The store's secret."""

from onbeat.stores.sqlite.transaction import Transaction


def secret(transaction: Transaction, fresh: bytes) -> bytes:
    transaction.run("INSERT OR IGNORE INTO onbeat_secrets VALUES ('tokens', ?)", (fresh.hex(),))
    return bytes.fromhex(
        transaction.value("SELECT value FROM onbeat_secrets WHERE name = 'tokens'")
    )


def known_secret(transaction: Transaction) -> bytes | None:
    """None if the store has none yet."""
    value = transaction.value("SELECT value FROM onbeat_secrets WHERE name = 'tokens'")
    return None if value is None else bytes.fromhex(value)
