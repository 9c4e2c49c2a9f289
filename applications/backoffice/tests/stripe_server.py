"""Stripe on this machine: localstripe, in a process of its own, as tests use it."""

import json
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.request import Request, urlopen

KEY = "sk_test_canary_4f1d"
PROGRAM = Path(__file__).with_name("stripe_program.py")


class StripeServer:
    """Its methods block."""

    def __init__(self, port: int) -> None:
        self.url = f"http://127.0.0.1:{port}"

    def call(self, path: str, /, **values: object) -> Any:
        headers = {"Authorization": f"Bearer {KEY}", "Content-Type": "application/json"}
        body = json.dumps(values).encode()
        with urlopen(Request(f"{self.url}{path}", body, headers), timeout=20) as answer:
            return json.load(answer)

    def reset(self) -> None:
        """As new: no charges, no keys, no faults."""
        self.call("/_config/reset")

    def customer(self) -> str:
        return str(self.call("/v1/customers", email="ada@example.com")["id"])

    def fail(self, kind: str, times: int = 1, path: str = "/v1/payment_intents") -> None:
        """The next requests of the path go wrong: see `fault` of the program."""
        self.call("/_config/fail", kind=kind, times=times, path=path)

    def refuse(self, code: str, parameter: str = "", times: int = 1) -> None:
        """The next charges are no valid requests."""
        self.fail(f"refuse {code} {parameter}", times)

    def heal(self) -> None:
        """Nothing goes wrong any more."""
        self.call("/_config/heal")

    def expire(self) -> None:
        """A day later: no idempotency key is known any more."""
        self.call("/_config/expire")

    def finish(self, intent: str) -> None:
        """What was pending is paid."""
        self.call("/_config/finish", intent=intent)

    @property
    def charges(self) -> Mapping[str, list[int]]:
        """The cents of all that was charged, by the key of the charge."""
        result: Mapping[str, list[int]] = self.call("/_config/charges")
        return result

    @property
    def intents(self) -> list[dict[str, Any]]:
        """In their order."""
        result: list[dict[str, Any]] = self.call("/_config/intents")
        return result


@contextmanager
def stripe() -> Iterator[StripeServer]:
    process = subprocess.Popen([sys.executable, str(PROGRAM)], stdout=subprocess.PIPE, text=True)
    with process:
        try:
            assert process.stdout is not None
            yield StripeServer(int(process.stdout.readline()))
        finally:
            process.kill()
