"""The tables beside those of the provider, as these were before."""

import asyncio
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from backoffice import schema
from backoffice.__main__ import main
from backoffice.database import Session, connected
from backoffice.schema import SchemaError, make, migrate, scripts, statements
from processes import Broker, variables
from test_invoices import Customer
from world import World, empty_mariadb

SEED = Path(__file__).with_name("seed_tables.sql")


@pytest.fixture
def empty() -> Iterator[World]:
    with empty_mariadb() as url:
        yield World(url)


@pytest.fixture
def seed(empty: World) -> World:
    """With the provider's tables, and some rows."""
    for statement in filter(None, map(str.strip, SEED.read_text().split(";"))):
        empty.run(statement)
    empty.run("INSERT INTO recordings (user_id, size, status) VALUES (1, 5, 'completed')")
    empty.run(
        "INSERT INTO users_invoices (cents, confirmation_number) VALUES (5, 'INV-1'), (5, 'INV-1')"
    )
    return empty


def shape(world: World) -> dict[str, object]:
    """The columns of each table, and its indexes."""
    result: dict[str, object] = {}
    for (table,) in world.rows("SHOW TABLES"):
        columns = {name for name, *_ in world.rows(f"SHOW COLUMNS FROM {table}")}
        indexes = {name for _, _, name, *_ in world.rows(f"SHOW INDEX FROM {table}")}
        result[table] = (columns, indexes - {"PRIMARY"})
    return result


def test_the_tables_can_be_made_again(world: World) -> None:
    before = shape(world)
    world.do(migrate)
    assert shape(world) == before
    assert "charges" in before


def test_the_tables_of_the_provider_get_what_they_lack(seed: World) -> None:
    seed.do(migrate)
    with empty_mariadb() as url:
        World(url).do(migrate)
        assert shape(seed) == shape(World(url))
    assert seed.rows("SELECT size, workspace_id FROM recordings") == [(5, None)]
    customer = Customer(seed)
    customer.record(2_000_000)
    customer.call(24_000, 500)
    invoice = customer.drafted()
    assert customer.complete(invoice, "CARD", invoice.cents).startswith("INV-")


def test_a_step_that_is_done_is_done_again(seed: World) -> None:
    """A process may be killed between any two statements, and inside of one that is committed."""

    async def twice(session: Session) -> None:
        for file in sorted(scripts()):
            for statement in statements(file):
                await make(session, statement)
                await make(session, statement)

    seed.do(twice)
    before = shape(seed)
    seed.do(migrate)
    assert shape(seed) == before


def test_processes_that_start_at_once_make_the_tables_once(seed: World) -> None:
    async def both(_: Session) -> None:
        sessions = [await connected(seed.url) for _ in range(3)]
        await asyncio.gather(*map(migrate, sessions))
        for session in sessions:
            await session.connection.ensure_closed()

    seed.do(both)
    before = shape(seed)
    seed.do(migrate)
    assert shape(seed) == before


def test_no_statement_is_of_mariadb_alone() -> None:
    """MySQL has IF NOT EXISTS for tables only; the others are one column or index each."""
    known = (schema.TABLE, schema.COLUMN, schema.INDEX)
    for file in scripts():
        for statement in statements(file):
            assert any(form.match(statement) for form in known), statement
            assert "IF NOT EXISTS" not in statement.removeprefix("CREATE TABLE IF NOT EXISTS")
            assert statement.count("ADD COLUMN") <= 1


def test_a_column_of_money_is_not_made_up(
    seed: World, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    seed.run("ALTER TABLE users_credits DROP COLUMN cents, ADD COLUMN balance BIGINT")
    with pytest.raises(
        SchemaError, match=r"lack columns that are needed: users_credits\.cents; add"
    ):
        seed.do(migrate)
    assert ("charges",) not in seed.rows("SHOW TABLES")
    for name, value in variables(seed, Broker()).items():
        monkeypatch.setenv(name, value)
    assert main(["migrate"]) == 1
    assert "users_credits.cents" in capsys.readouterr().err


def test_a_statement_that_is_refused_is_one_line(
    seed: World, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    seed.run("INSERT INTO usage_triggers_results (usage_trigger_id) VALUES (1), (1)")
    for name, value in variables(seed, Broker()).items():
        monkeypatch.setenv(name, value)
    assert main(["migrate"]) == 1
    error = capsys.readouterr().err
    assert re.fullmatch(
        r"backoffice: CREATE UNIQUE INDEX usage_triggers_results_once .*: Duplicate entry .*\n",
        error,
    )
