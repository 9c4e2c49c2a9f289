"""Who is to get which mail, and how it is kept that it was sent.

Each kind of mail selects causes page by page along an index, reads what is in the mail when it is
sent, if it is still wanted then, and marks its cause as done.
"""

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta
from typing import Final
from zoneinfo import ZoneInfo

from backoffice.database import Database, Row, Session
from backoffice.mails.dispatch import Mail

PORTION: Final = 500
INACTIVE_AFTER: Final = timedelta(days=14)
TRIAL_REMINDED_AFTER: Final = timedelta(days=7)
SURVEYED_AFTER: Final = timedelta(days=7)
EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)

USER: Final[Sequence[str]] = ("id", "username", "first_name", "last_name", "email")
WORKSPACE: Final[Sequence[str]] = ("id", "name", "creator_id", "plan")
COLUMNS: Final = ", ".join([*(f"u.{name}" for name in USER), *(f"w.{name}" for name in WORKSPACE)])
FIRST: Final = "ORDER BY w.id LIMIT 1"

Balance = Callable[[Session, int], Awaitable[int]]
"""The cents that a workspace has left."""


@dataclass(frozen=True, kw_only=True)
class Cause:
    """Why one mail is sent. `id` is of the row that it is about, `key` is unlike all others.

    `at` is when it was selected; `month` is that of an expiry, such as 2027-01.
    """

    kind: str
    id: int
    key: str
    at: datetime
    month: str = ""
    args: Mapping[str, str] = field(default_factory=dict[str, str])


@dataclass(frozen=True)
class Selection:
    """What all selections read from."""

    database: Database
    zone: str
    balance: Balance


@dataclass(frozen=True, kw_only=True)
class Kind:
    """`name` is the `email_type`.

    `source` is the tables and the condition of the one row of a user `u` and a workspace `w`, whose
    values `values` gives; `mark` writes that the mail was sent.
    """

    name: str
    subject: str
    select: Callable[[Selection, datetime], AsyncIterator[Cause]]
    source: str
    values: Callable[[Cause], tuple[object, ...]]
    mark: Callable[[Session, Cause], Awaitable[int]]


async def read_mail(session: Session, cause: Cause) -> Mail | None:
    """What is to be sent, None if the mail is not wanted any more."""
    kind = KINDS[cause.kind]
    sql = f"SELECT {COLUMNS} FROM {kind.source} {FIRST}"  # noqa: S608  texts of this module
    row = await session.row(sql, *kind.values(cause))
    if row is None:
        return None
    return Mail(
        email_type=kind.name,
        subject=kind.subject,
        to=str(row[USER.index("email")]),
        user=dict(zip(USER, row[: len(USER)], strict=True)),
        workspace=dict(zip(WORKSPACE, row[len(USER) :], strict=True)),
        args=dict(cause.args),
    )


async def inactive_users(selection: Selection, at: datetime) -> AsyncIterator[Cause]:
    """Creators whose last login was 14 days ago or longer, and whom nobody has reminded."""
    sql = """
        SELECT t.last_login, t.id FROM users t
        WHERE t.last_login_reminded IS NULL AND t.last_login <= ?
          AND (t.last_login > ? OR t.last_login = ? AND t.id > ?)
          AND EXISTS (SELECT 1 FROM workspaces w WHERE w.creator_id = t.id)
        ORDER BY t.last_login, t.id LIMIT ?
    """
    async for _, id in old_rows(selection, sql, at - INACTIVE_AFTER):
        yield Cause(kind="inactive_user", id=id, key=f"inactive:{id}", at=at)


async def ending_trials(selection: Selection, at: datetime) -> AsyncIterator[Cause]:
    """Workspaces whose free trial began 7 days ago or longer."""
    sql = """
        SELECT t.free_trial_started, t.id FROM workspaces t
        WHERE t.free_trial_reminder_sent = 0 AND t.free_trial_started <= ?
          AND (t.free_trial_started > ? OR t.free_trial_started = ? AND t.id > ?)
          AND EXISTS (SELECT 1 FROM users u WHERE u.id = t.creator_id)
        ORDER BY t.free_trial_started, t.id LIMIT ?
    """
    async for started, id in old_rows(selection, sql, at - TRIAL_REMINDED_AFTER):
        key = f"trial:{id}:{started:%Y-%m-%dT%H:%M:%S.%fZ}"
        yield Cause(kind="free_trial_expiring", id=id, key=key, at=at)


async def unsurveyed(selection: Selection, at: datetime) -> AsyncIterator[Cause]:
    """Workspaces of 7 full days or more."""
    sql = """
        SELECT t.created_at, t.id FROM workspaces t
        WHERE t.sent_satisfaction_survey = 0 AND t.created_at <= ?
          AND (t.created_at > ? OR t.created_at = ? AND t.id > ?)
          AND EXISTS (SELECT 1 FROM users u WHERE u.id = t.creator_id)
        ORDER BY t.created_at, t.id LIMIT ?
    """
    async for _, id in old_rows(selection, sql, at - SURVEYED_AFTER):
        yield Cause(kind="customer_satisfaction_survey", id=id, key=f"survey:{id}", at=at)


async def old_rows(
    selection: Selection, sql: str, before: datetime
) -> AsyncIterator[tuple[datetime, int]]:
    """The instants and ids of rows whose instant is not after `before`, the oldest first."""
    since, id = EPOCH, 0
    while rows := await page(selection.database, sql, before, since, since, id):
        for since, id in rows:
            yield since, int(id)


async def page(database: Database, sql: str, *values: object) -> Sequence[Row]:
    """No session waits while the causes of a page are taken."""
    async with database.session() as session:
        return await session.rows(sql, *values, PORTION)


async def expiring_cards(selection: Selection, at: datetime) -> AsyncIterator[Cause]:
    """Cards that expire in the month after that of the selection, in its zone."""
    today = at.astimezone(ZoneInfo(selection.zone)).date()
    begin, end = today.replace(day=1), next_month(today)
    month = f"{end:%Y-%m}"
    days = str((end - begin).days + 1)
    sql = """
        SELECT t.id, t.last_4 FROM users_cards t
        WHERE t.exp_year = ? AND t.exp_month = ? AND t.id > ?
          AND (t.expiry_reminded IS NULL OR t.expiry_reminded <> ?)
          AND EXISTS (SELECT 1 FROM users u WHERE u.id = t.user_id)
          AND EXISTS (SELECT 1 FROM workspaces w WHERE w.id = t.workspace_id)
        ORDER BY t.id LIMIT ?
    """
    id = 0
    while rows := await page(selection.database, sql, end.year, end.month, id, month):
        for id, digits in rows:
            yield Cause(
                kind="card_expiring",
                id=int(id),
                key=f"card:{id}:{month}",
                at=at,
                month=month,
                args={"ending_digits": str(digits), "days": days},
            )


def next_month(day: date) -> date:
    """Its first day."""
    year, month = divmod(day.year * 12 + day.month, 12)
    return date(year, month + 1, 1)


async def used_up(selection: Selection, at: datetime) -> AsyncIterator[Cause]:
    """Triggers that have not been reported, of workspaces whose balance is down to their share.

    A workspace without credits has nothing that could be used up.
    """
    sql = """
        SELECT t.id, t.workspace_id, t.percentage FROM usage_triggers t
        JOIN workspaces w ON w.id = t.workspace_id JOIN users u ON u.id = w.creator_id
        WHERE t.id > ?
          AND NOT EXISTS (SELECT 1 FROM usage_triggers_results r WHERE r.usage_trigger_id = t.id)
        ORDER BY t.id LIMIT ?
    """
    id = 0
    while rows := await page(selection.database, sql, id):
        for id, workspace, percentage in rows:
            left = await left_of(selection, int(workspace), int(percentage))
            if left is not None:
                yield Cause(
                    kind="usage_trigger",
                    id=int(id),
                    key=f"usage:{id}",
                    at=at,
                    args={"triggerPercent": str(percentage), "triggerBalance": str(left)},
                )


async def left_of(selection: Selection, workspace: int, percentage: int) -> int | None:
    """The cents that are left, if they are down to that percentage of all credits."""
    async with selection.database.session() as session:
        row = await session.row(
            "SELECT coalesce(sum(cents), 0) FROM users_credits WHERE workspace_id = ?", workspace
        )
        credits = int(row[0]) if row else 0
        left = await selection.balance(session, workspace)
    return left if credits > 0 and left <= share_of(credits, percentage) else None


def share_of(cents: int, percentage: int) -> int:
    """Rounded half up."""
    return (2 * cents * percentage + 100) // 200


CREATOR: Final = "workspaces w JOIN users u ON u.id = w.creator_id WHERE"

KINDS: Final = {
    kind.name: kind
    for kind in (
        Kind(
            name="inactive_user",
            subject="Account Inactivity",
            select=inactive_users,
            source=f"{CREATOR} u.id = ? AND u.last_login_reminded IS NULL AND u.last_login <= ?",
            values=lambda cause: (cause.id, cause.at - INACTIVE_AFTER),
            mark=lambda session, cause: session.run(
                "UPDATE users SET last_login_reminded = ? WHERE id = ?", cause.at, cause.id
            ),
        ),
        Kind(
            name="usage_trigger",
            subject="Usage Trigger Alert",
            select=used_up,
            source=(
                "usage_triggers t JOIN workspaces w ON w.id = t.workspace_id"
                " JOIN users u ON u.id = w.creator_id WHERE t.id = ? AND NOT EXISTS"
                " (SELECT 1 FROM usage_triggers_results r WHERE r.usage_trigger_id = t.id)"
            ),
            values=lambda cause: (cause.id,),
            mark=lambda session, cause: session.run(
                "INSERT INTO usage_triggers_results (usage_trigger_id, created_at) VALUES (?, ?)"
                " ON DUPLICATE KEY UPDATE id = id",
                cause.id,
                cause.at,
            ),
        ),
        Kind(
            name="free_trial_expiring",
            subject="Free trial is ending",
            select=ending_trials,
            source=f"{CREATOR} w.id = ? AND w.free_trial_reminder_sent = 0",
            values=lambda cause: (cause.id,),
            mark=lambda session, cause: session.run(
                "UPDATE workspaces SET free_trial_reminder_sent = 1 WHERE id = ?", cause.id
            ),
        ),
        Kind(
            name="card_expiring",
            subject="Card expiring soon",
            select=expiring_cards,
            source=(
                "users_cards c JOIN workspaces w ON w.id = c.workspace_id"
                " JOIN users u ON u.id = c.user_id WHERE c.id = ?"
                " AND (c.expiry_reminded IS NULL OR c.expiry_reminded <> ?)"
            ),
            values=lambda cause: (cause.id, cause.month),
            mark=lambda session, cause: session.run(
                "UPDATE users_cards SET expiry_reminded = ? WHERE id = ?", cause.month, cause.id
            ),
        ),
        Kind(
            name="customer_satisfaction_survey",
            subject="Customer satisfaction survey",
            select=unsurveyed,
            source=f"{CREATOR} w.id = ? AND w.sent_satisfaction_survey = 0",
            values=lambda cause: (cause.id,),
            mark=lambda session, cause: session.run(
                "UPDATE workspaces SET sent_satisfaction_survey = 1 WHERE id = ?", cause.id
            ),
        ),
    )
}
