"""What tests of the documentation share."""

import fcntl
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest


@pytest.fixture
def only_demo() -> Iterator[None]:
    """No other demo runs on this machine meanwhile: a second one would want the same ports."""
    with (Path(tempfile.gettempdir()) / "onbeat-demo.lock").open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield
