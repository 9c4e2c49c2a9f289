"""K1: who reads the store's files gets no key."""

import sqlite3
from pathlib import Path

from conditions import eventually_here
from interfaces.up import up

FIRST = "first-key-of-at-least-20-characters"


def test_no_key_lies_in_the_store_and_only_its_digest_lets_in(tmp_path: Path) -> None:
    with up(tmp_path, ONBEAT_API__KEYS=FIRST) as service:
        status, made = service.ask(
            "/api/keys", {"name": "ci", "scopes": ["read"]}, Authorization=f"Bearer {FIRST}"
        )
        assert status == 201, made
        key = made["key"]
        assert service.ask("/api/jobs", Authorization=f"Bearer {key}")[0] == 200
        for path in tmp_path.glob("onbeat.db*"):
            content = path.read_bytes()
            assert key.encode() not in content, path.name
            assert FIRST.encode() not in content, path.name
        rows = eventually_here(lambda: stored(tmp_path / "onbeat.db"), "the key is stored")
        (digest,) = rows
        assert service.ask("/api/jobs", Authorization=f"Bearer {digest}")[0] == 401
        assert service.ask("/api/jobs", Authorization=f"Bearer sha256:{digest}")[0] == 401


def stored(path: Path) -> list[str]:
    """What the store keeps to know a key by."""
    db = sqlite3.connect(f"file:{path}?mode=ro", uri=True)
    try:
        columns = [name for _, name, *_ in db.execute("PRAGMA table_info(onbeat_keys)")]
        column = next(name for name in columns if "digest" in name or "hash" in name)
        found = [value for (value,) in db.execute(f"SELECT {column} FROM onbeat_keys")]
    finally:
        db.close()
    return [value.hex() if isinstance(value, bytes) else str(value) for value in found]
