"""Long proofs, marked `proof`: processes and servers are killed, stopped, cut off and filled up,
and whole systems speak over each broker.

`make test` runs each over one store or broker, spread over all of them; `make proof` over every one.
"""

import os
import zlib
from collections import defaultdict
from collections.abc import Iterable
from typing import Any

import pytest

# What a proof is repeated over; its other parameters are other faults, and each of them is run.
PLACES = frozenset({"place", "server", "broker", "link", "store", "transport"})


def are_all_wanted() -> bool:
    return os.environ.get("PROOFS") == "all" or os.environ.get("TEST_PROFILE") == "long"


def sample(items: Iterable[pytest.Item]) -> list[pytest.Item]:
    """One of each proof that was collected: always the same, whatever the order."""
    alike: dict[Any, list[pytest.Item]] = defaultdict(list)
    for item in items:
        alike[proof_of(item)].append(item)
    return [chosen(name, group) for (name, _), group in alike.items()]


def proof_of(item: pytest.Item) -> tuple[str, tuple[tuple[str, str], ...]]:
    params: dict[str, Any] = getattr(getattr(item, "callspec", None), "params", {})
    others = {name: repr(value) for name, value in params.items() if name not in PLACES}
    return item.nodeid.partition("[")[0], tuple(sorted(others.items()))


def chosen(name: str, group: list[pytest.Item]) -> pytest.Item:
    return sorted(group, key=lambda item: item.nodeid)[zlib.crc32(name.encode()) % len(group)]
