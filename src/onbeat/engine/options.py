"""The options of the loops of one process."""

from datetime import timedelta
from typing import Final

import msgspec

from onbeat.model.keep_rule import Keeping, KeepRule
from onbeat.model.role import Role
from onbeat.rules.keep_rules import check_rules
from onbeat.rules.kinds import check_kinds

BEATS_PER_LEASE: Final = 4


class RuntimeOptions(msgspec.Struct, frozen=True, kw_only=True):
    """Options of the loops of one process."""

    roles: frozenset[Role] = frozenset(Role)
    concurrency: int = 100
    prefetch: int | None = None
    queues: tuple[str, ...] | None = None
    lease: timedelta = timedelta(seconds=15)
    planner_interval: timedelta = timedelta(seconds=20)
    horizon: timedelta = timedelta(minutes=10)
    keep: timedelta = timedelta(days=7)
    keep_failed: timedelta = timedelta(days=30)
    keep_rules: tuple[KeepRule, ...] = ()
    keep_audit: timedelta = timedelta(days=365)
    keep_keys: timedelta = timedelta(days=1)
    keep_events: timedelta = timedelta(days=7)

    def __post_init__(self) -> None:
        """Raises `Invalid` for an option of another kind, and for rules that cannot be."""
        check_kinds(self)
        check_rules(self.keep_rules)

    @property
    def keeping(self) -> Keeping:
        return Keeping(after=self.keep, failed_after=self.keep_failed, rules=tuple(self.keep_rules))

    @property
    def prefetch_count(self) -> int:
        """Where the pace of the worker does not decide."""
        return self.concurrency if self.prefetch is None else self.prefetch

    @property
    def lease_seconds(self) -> float:
        return self.lease.total_seconds()

    @property
    def heartbeat_period(self) -> float:
        """Seconds between two heartbeats."""
        return self.lease_seconds / BEATS_PER_LEASE
