"""Every history of store calls, alone and at once, is one that the oracle allows, on each store."""

import asyncio
import os
from pathlib import Path

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis.stateful import run_state_machine_as_test

from model_checks.machine import StoreMachine
from model_checks.places import STORES, opened

LONG = os.environ.get("TEST_PROFILE") == "long"
EXAMPLES = {"memory": 120, "sqlite": 60, "postgres": 40, "mysql": 40}
STEPS = 30


@pytest.mark.parametrize("kind", STORES)
def test_every_history_is_one_of_the_oracle(kind: str, tmp_path: Path) -> None:
    with asyncio.Runner() as runner, opened(kind, tmp_path, runner, count=3) as stores:
        given = {"runner": runner, "stores": stores, "claims_by_priority": kind == "mysql"}
        machine = type("Machine", (StoreMachine,), given)
        run_state_machine_as_test(
            machine,
            settings=settings(
                settings.default,
                max_examples=EXAMPLES[kind] * (50 if LONG else 1),
                stateful_step_count=STEPS * (3 if LONG else 1),
                # A history with calls at once is not repeated exactly, so it is not made smaller.
                phases=[Phase.explicit, Phase.reuse, Phase.generate],
                suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
            ),
        )
