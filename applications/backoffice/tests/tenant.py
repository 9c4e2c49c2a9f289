"""A workspace whose bills are tested, and the figures of the old system's tests in cents."""

from collections.abc import Sequence
from datetime import datetime
from fractions import Fraction
from typing import Any

from backoffice.database import Row, Session
from backoffice.periods import Period, parse
from backoffice.rules import Rules
from backoffice.usage import Lines, Plan, Workspace, usage_lines
from world import World

OCTOBER = parse("2026-10", "MONTHLY", "UTC")
PRICES = Rules(cents_per_recorded_byte=Fraction(1, 1_000), cents_per_fax=Fraction(25, 2))
STARTER = Plan(
    id=1, monthly_cents=2_499, annual_cents=24_990, minutes=200, recorded_bytes=1_024, faxes=0
)
INVOICE = 1


def in_cents(figure: str) -> Fraction:
    """A figure of the old system's tests.

    They add prices of 24.99 to debits of 1000 in one sum, so all of them are in one unit. Here it
    is a dollar: 24.99 is 2499 cents, 1000 is 100,000.
    """
    return Fraction(figure) * 100


class Tenant:
    """A workspace that makes calls, records and sends."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.user = world.user()
        self.id = world.workspace(self.user)

    def call(self, seconds: int, cents: int, at: datetime = OCTOBER.begin) -> None:
        self.calls([(seconds, cents)], at)

    def calls(self, calls: Sequence[tuple[int, int]], at: datetime = OCTOBER.begin) -> None:
        first = self.world.add("calls", duration=0) + 1
        self.world.many(
            "INSERT INTO calls (id, duration) VALUES (?, ?)",
            [(first + n, seconds) for n, (seconds, _) in enumerate(calls)],
        )
        self.world.many(
            "INSERT INTO users_debits"
            " (source, status, cents, module_id, user_id, workspace_id, created_at)"
            " VALUES ('CALL', 'INCOMPLETE', ?, ?, ?, ?, ?)",
            [(cents, first + n, self.user, self.id, at) for n, (_, cents) in enumerate(calls)],
        )

    def number(self, cents: int) -> int:
        return self.world.add(
            "did_numbers", number="+4930123", monthly_cost=cents, workspace_id=self.id
        )

    def record(self, size: int, at: datetime = OCTOBER.begin, **columns: object) -> int:
        given = {"workspace_id": self.id, "status": "processed", "storage_id": "abc", **columns}
        return self.world.add("recordings", user_id=self.user, size=size, created_at=at, **given)

    def records(self, sizes: Sequence[int], at: datetime = OCTOBER.begin) -> None:
        self.world.many(
            "INSERT INTO recordings (user_id, workspace_id, size, status, storage_id, created_at)"
            " VALUES (?, ?, ?, 'processed', 'abc', ?)",
            [(self.user, self.id, size, at) for size in sizes],
        )

    def fax(self, at: datetime = OCTOBER.begin) -> int:
        return self.world.add("faxes", workspace_id=self.id, created_at=at)

    def lines(
        self,
        rules: Rules = PRICES,
        *,
        plan: Plan = STARTER,
        period: Period = OCTOBER,
        invoice: int = INVOICE,
    ) -> Lines:
        who = Workspace(id=self.id, creator_id=self.user, users=1)

        async def read(session: Session) -> Lines:
            async with session.transaction():
                return await usage_lines(session, who, plan, period, rules, invoice)

        return self.world.do(read)


class Explained(Session):
    """A session that asks for the plan of each of its statements."""

    def __init__(self, session: Session) -> None:
        super().__init__(session.connection)
        self.plans: list[Row] = []

    async def execute(self, sql: str, values: Sequence[object]) -> Any:
        if {"SELECT", "UPDATE"} & set(sql.split()):
            cursor = await super().execute(f"EXPLAIN {sql}", values)
            self.plans += await cursor.fetchall()
        return await super().execute(sql, values)


def crowd(world: World) -> None:
    """So many other rows in each table that only an index is worth its while."""
    other = Tenant(world)
    owner = {"workspace_id": other.id, "user_id": other.user}
    dates = {"created_at": OCTOBER.begin, "updated_at": OCTOBER.begin}
    columns: dict[str, dict[str, object]] = {
        "users_debits": {"source": "CALL", "status": "INCOMPLETE", "cents": 7, "module_id": 1},
        "users_credits": {"cents": 100},
        "recordings": {"status": "processed", "storage_id": "abc"},
        "faxes": {},
        "did_numbers": {"number": "+4930123", "monthly_cost": 1_000},
        "workspaces_users": {},
        "service_plans": {"key_name": "another"},
        "subscriptions": {"current_plan_id": 1, "billing_cycle": "MONTHLY", "status": "ACTIVE"},
        "users_invoices": {
            "cents": 1,
            "cents_including_taxes": 1,
            "status": "COMPLETE",
            "source": "CARD",
        },
    }
    for table, values in columns.items():
        known = {name for name, *_ in world.rows(f"SHOW COLUMNS FROM {table}")}
        row = values | {name: value for name, value in (owner | dates).items() if name in known}
        sql = f"INSERT INTO {table} ({', '.join(row)}) VALUES ({', '.join('?' * len(row))})"
        world.many(sql, 500 * [tuple(row.values())])
    world.rows(f"ANALYZE TABLE {', '.join(columns)}")
