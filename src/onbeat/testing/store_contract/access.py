"""The store's secret, API keys, and the audit log."""

from typing import Any

import pytest
from msgspec.structs import replace

from onbeat.model.access import ApiKey, AuditFilter, AuditRecord
from onbeat.model.errors import Conflict
from onbeat.model.principal import Scope
from onbeat.ports.store import Store
from onbeat.testing.build import DAY, NOW, SECOND, an_id


def a_key(name: str, **fields: Any) -> ApiKey:
    key = ApiKey(name=name, digest="ab" * 32, scopes=(Scope.READ,), created_at=NOW)
    return replace(key, **fields)


def a_record(**fields: Any) -> AuditRecord:
    record = AuditRecord(
        id=an_id(), at=NOW, actor="ops", action="queue.pause", object="queue/default"
    )
    return replace(record, **fields)


class SecretContract:
    async def test_the_first_secret_stays(self, store: Store) -> None:
        first, second = bytes(range(32)), bytes(32)
        assert await store.secret(first) == first
        assert await store.secret(second) == first

    async def test_the_version_of_a_map_only_rises(self, store: Store) -> None:
        seen = [await store.note_map_version(version) for version in (2, 1, 9, 10, 10, 3)]
        assert seen == [2, 2, 9, 10, 10, 10]
        secret = bytes(range(32))
        assert await store.secret(secret) == secret


class KeyContract:
    async def test_keys_are_kept_as_they_are_and_listed_by_name(self, store: Store) -> None:
        plain = a_key("b")
        full = a_key(
            "a größe",
            scopes=(Scope.SUBMIT, Scope.WORK),
            queues=("mail", "export"),
            expires_at=NOW + DAY,
        )
        await store.add_key(plain)
        await store.add_key(full)
        assert list(await store.keys()) == [full, plain]

    async def test_a_name_is_given_once(self, store: Store) -> None:
        key = a_key("ops")
        await store.add_key(key)
        with pytest.raises(Conflict, match="'ops'"):
            await store.add_key(replace(key, digest="cd" * 32))
        assert list(await store.keys()) == [key]
        await store.add_key(a_key("Ops"))

    async def test_a_key_is_removed_once(self, store: Store) -> None:
        await store.add_key(a_key("ops"))
        assert await store.remove_key("ops") is True
        assert await store.remove_key("ops") is False
        assert list(await store.keys()) == []
        await store.add_key(a_key("ops"))

    async def test_the_last_use_only_rises(self, store: Store) -> None:
        await store.add_key(a_key("ops"))
        for at in (NOW, NOW + SECOND, NOW):
            await store.note_key_use("ops", at)
        await store.note_key_use("nobody", NOW)
        (key,) = await store.keys()
        assert key == a_key("ops", used_at=NOW + SECOND)


class AuditContract:
    async def test_a_record_is_kept_and_replaced_by_its_id(self, store: Store) -> None:
        record = a_record(summary='{"name":"größe"}')
        await store.put_audit(record)
        assert list(await store.audit(AuditFilter())) == [record]
        ended = replace(record, outcome="done", object="queue/mail")
        await store.put_audit(ended)
        assert list(await store.audit(AuditFilter())) == [ended]
        assert list(await store.audit(AuditFilter(object="queue/mail"))) == [ended]
        assert list(await store.audit(AuditFilter(object="queue/default"))) == []

    async def test_the_newest_are_listed_first_by_pages(self, store: Store) -> None:
        records = [a_record() for _ in range(5)]
        for record in records:
            await store.put_audit(record)
        page = await store.audit(AuditFilter(limit=2))
        assert list(page) == [records[4], records[3]]
        rest = await store.audit(AuditFilter(limit=9, before=page[-1].id))
        assert list(rest) == [records[2], records[1], records[0]]

    async def test_records_are_found_by_each_field(self, store: Store) -> None:
        one = a_record()
        others = {
            "actor": a_record(actor="Ops"),
            "action": a_record(action="queue.resume"),
            "object": a_record(object="queue/mail"),
        }
        for record in (one, *others.values()):
            await store.put_audit(record)
        for field, other in others.items():
            filter = AuditFilter(**{field: getattr(other, field)})
            assert list(await store.audit(filter)) == [other]
        filter = AuditFilter(actor="ops", action="queue.pause", object="queue/default")
        assert list(await store.audit(filter)) == [one]

    async def test_since_is_included_and_until_is_not(self, store: Store) -> None:
        records = [a_record(at=NOW + number * SECOND) for number in range(3)]
        for record in records:
            await store.put_audit(record)
        filter = AuditFilter(since=NOW, until=NOW + 2 * SECOND)
        assert list(await store.audit(filter)) == [records[1], records[0]]

    async def test_old_records_are_pruned_oldest_first(self, store: Store) -> None:
        records = [a_record(at=NOW + number * SECOND) for number in range(4)]
        for record in reversed(records):
            await store.put_audit(record)
        assert await store.prune_audit(NOW + 3 * SECOND, 2) == 2
        assert {one.id for one in await store.audit(AuditFilter())} == {
            records[2].id,
            records[3].id,
        }
        assert await store.prune_audit(NOW + 3 * SECOND, 2) == 1
        assert await store.prune_audit(NOW + 3 * SECOND, 2) == 0
        assert list(await store.audit(AuditFilter())) == [records[3]]
