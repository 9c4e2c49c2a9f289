"""A rule that is edited when no planner has come by for long."""

from datetime import timedelta

import pytest

from onbeat.operations.tables.schedules import SCHEDULE_CREATE, SCHEDULE_UPDATE
from operations.harness import NOON, OperationsHarness


@pytest.mark.parametrize("catch_up", ["latest", "none", "all"])
async def test_what_was_missed_under_the_old_rule_has_its_disposition(catch_up: str) -> None:
    office = OperationsHarness()
    body = {
        "name": "tick",
        "cron": "*/10 * * * *",
        "catch_up": catch_up,
        "grace": "1s",
        "target": {"task": "tick"},
    }
    id = (await office.ask(SCHEDULE_CREATE, body))["id"]
    office.clock.at = NOON + timedelta(hours=2, minutes=5)

    await office.ask(SCHEDULE_UPDATE, {"cron": "0 3 * * *"}, id=id)

    kept = await office.store.dispositions(id, NOON, office.clock.at)
    covered = {
        NOON + timedelta(minutes=10 * n)
        for n in range(1, 13)
        if any(each.first <= NOON + timedelta(minutes=10 * n) <= each.last for each in kept)
    }
    assert len(covered) == 12
