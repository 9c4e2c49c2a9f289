"""How many rules hypothesis makes up: few by default, many with ONBEAT_TEST_PROFILE=long."""

import os

from hypothesis import HealthCheck, settings

QUIET = [HealthCheck.too_slow, HealthCheck.filter_too_much, HealthCheck.data_too_large]

settings.register_profile(
    "recurrence-quick", max_examples=60, deadline=None, suppress_health_check=QUIET
)
settings.register_profile(
    "recurrence-long", max_examples=3000, deadline=None, suppress_health_check=QUIET
)
long = os.environ.get("ONBEAT_TEST_PROFILE") == "long"
settings.load_profile("recurrence-long" if long else "recurrence-quick")
