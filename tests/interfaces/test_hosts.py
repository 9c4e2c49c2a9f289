"""A service without keys, and pages of other sites that point their names at it (DNS rebinding)."""

from pathlib import Path
from typing import Any

import pytest

from interfaces.up import up

JOB = {"target": {"task": "x"}, "delay": "1h"}


def page(host: Any, port: Any) -> Any:
    """The headers that a browser sends for a page that came from this name."""
    return {
        "Host": f"{host}:{port}",
        "Origin": f"http://{host}:{port}",
        "Sec_Fetch_Site": "same-origin",
    }


@pytest.mark.parametrize(
    "args", [["--host", "0.0.0.0", "--insecure"], []], ids=["insecure", "loopback"]
)
def test_without_keys_only_addresses_and_names_that_are_set_are_answered(
    tmp_path: Path, args: list[str]
) -> None:
    with up(tmp_path, *args, ONBEAT_API__HOSTS="onbeat.internal") as service:
        port = service.address[1]
        status, answer = service.ask("/api/jobs", JOB, **page("evil.example", port))
        assert (status, answer["error"]["code"]) == (403, "forbidden")
        assert "'evil.example'" in answer["error"]["message"]
        for host in ("127.0.0.1", "10.1.2.3", "localhost", "onbeat.internal", "[::1]"):
            assert service.ask("/api/jobs", JOB, **page(host, port))[0] == 201


def test_another_address_of_the_loopback_is_answered_under_its_own(tmp_path: Path) -> None:
    with up(tmp_path, "--host", "127.0.0.2") as service:
        assert service.address[0] == "127.0.0.2"
        assert service.ask("/api/jobs", JOB)[0] == 201
