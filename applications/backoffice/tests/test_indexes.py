"""S1-D40: no statement of the selections and removals reads a whole table."""

from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from typing import Any

import pytest

from backoffice.database import Database, Session
from backoffice.mails.selections import KINDS, Selection, read_mail
from backoffice.recordings import next_tasks
from backoffice.upkeep import clean_up_users, remove_logs
from world import World

AT = datetime(2026, 12, 20, 9, tzinfo=UTC)
FILL = """
    INSERT INTO users (id, email, last_login, needs_password_set, needs_set_password_date)
      SELECT seq, seq, '2026-12-20', mod(seq, 100) = 0, '2026-12-20' FROM seq_1_to_3000;
    UPDATE users SET last_login = '2026-01-01', needs_set_password_date = '2026-01-01'
      WHERE mod(id, 50) = 0;
    INSERT INTO workspaces (id, name, creator_id, created_at, free_trial_started)
      SELECT seq, seq, seq, '2026-12-20', '2026-12-20' FROM seq_1_to_3000
      WHERE mod(seq, 100) <> 0;
    UPDATE workspaces SET created_at = '2026-01-01', free_trial_started = '2026-01-01'
      WHERE mod(id, 50) = 0;
    INSERT INTO users_cards (workspace_id, user_id, exp_month, exp_year, last_4)
      SELECT seq, seq, 1 + mod(seq, 12), 2027 + mod(seq, 5), '4242' FROM seq_1_to_3000;
    INSERT INTO usage_triggers (id, workspace_id, percentage)
      SELECT seq, seq, 50 FROM seq_1_to_3000;
    INSERT INTO usage_triggers_results (usage_trigger_id) SELECT seq FROM seq_1_to_2900;
    INSERT INTO users_credits (cents, workspace_id, created_at)
      SELECT 100, seq, '2026-12-20' FROM seq_1_to_3000;
    INSERT INTO recordings (user_id, status, storage_id, created_at)
      SELECT seq, if(mod(seq, 100) = 0, 'completed', 'processed'), seq, '2026-12-20'
      FROM seq_1_to_3000;
    INSERT INTO debugger_logs (created_at)
      SELECT if(mod(seq, 100) = 0, '2026-01-01', '2026-12-20') FROM seq_1_to_3000;
    ANALYZE TABLE users, workspaces, users_cards, usage_triggers, usage_triggers_results,
      users_credits, recordings, debugger_logs
"""


@pytest.fixture
def statements(world: World, monkeypatch: pytest.MonkeyPatch) -> dict[str, Sequence[object]]:
    """What is executed from then on, in tables with rows of which few are due; with its values."""
    for statement in FILL.split(";"):
        world.run(statement)
    found: dict[str, Sequence[object]] = {}
    execute = Session.execute

    async def noted(self: Session, sql: str, values: Sequence[object]) -> Any:
        if sql.lstrip().startswith(("SELECT", "DELETE", "UPDATE")):
            found[sql] = values
        return await execute(self, sql, values)

    monkeypatch.setattr(Session, "execute", noted)
    return found


async def overdrawn(*_: object) -> int:
    return -1


async def mails_are_selected(database: Database) -> int:
    causes = [
        cause
        for kind in KINDS.values()
        async for cause in kind.select(Selection(database, "UTC", overdrawn), AT)
    ]
    async with database.session() as session:
        for cause in causes:
            await read_mail(session, cause)
            await KINDS[cause.kind].mark(session, cause)
    return len({cause.kind for cause in causes})


async def users_are_cleaned_up(database: Database) -> int:
    async with database.session() as session:
        return (await clean_up_users(session, AT, lambda _: None)).deleted


async def logs_are_removed(database: Database) -> int:
    async with database.session() as session:
        return await remove_logs(session, datetime(2026, 12, 1, tzinfo=UTC), lambda _: None)


async def recordings_are_selected(database: Database) -> int:
    return len(await next_tasks(database, 0))


@pytest.mark.parametrize(
    ("work", "number"),
    [
        (mails_are_selected, 5),
        (users_are_cleaned_up, 30),
        (logs_are_removed, 30),
        (recordings_are_selected, 30),
    ],
)
async def test_s1_d40_no_statement_reads_a_whole_table(
    world: World,
    statements: dict[str, Sequence[object]],
    work: Callable[[Database], Any],
    number: int,
) -> None:
    database = Database(world.url)
    try:
        assert await work(database) == number
        texts = dict(statements)
        async with database.session() as session:
            plans = {
                sql: await session.rows(f"EXPLAIN {sql}", *values) for sql, values in texts.items()
            }
    finally:
        await database.close()
    assert plans
    whole = [
        (sql, row) for sql, rows in plans.items() for row in rows if row[3] in {"ALL", "index"}
    ]
    assert whole == []
