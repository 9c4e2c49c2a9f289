"""What all tests share: how many examples a property gets."""

import os

from hypothesis import HealthCheck, settings

settings.register_profile(
    "quick",
    max_examples=int(os.environ.get("ONBEAT_EXAMPLES", "60")),
    deadline=None,
    print_blob=True,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile("quick")
