"""The reference page of all bounds, written from the table that the tests walk."""

from typing import Final

from inputs.table import TABLE, Input
from onbeat.model.limits import ASIDE_BYTES_MIN, ASIDE_JOBS_MIN, LOOP_STEPS_MAX
from onbeat.wire.errors import TABLE as PROBLEMS

HEAD: Final = f"""\
# Limits

Written by `make docs` from `tests/inputs/table.py`. Tests walk the same table: each input is asked
at its bound and one beyond, and with hostile texts of some size and of twice that, which may not
cost more than three times as much.

An input over its bound is refused with the code in the last column ([errors](errors.md)), naming
the field; over JSON-RPC with the number that [belongs to it](rpc.md). Where there is no code, more
is cut, left out or refused in words of its own. Bodies from {ASIDE_BYTES_MIN // 1024} KiB, requests
of {ASIDE_JOBS_MIN} jobs and searches of more than {LOOP_STEPS_MAX:,} [steps](recurrence.md#bounds)
are worked on in a thread, and a search ends when its caller has left.

| input | where | bound | code |
|---|---|---|---|
"""


def reference_page() -> str:
    """The page in Markdown."""
    return HEAD + "".join(map(row, TABLE))


def row(input: Input) -> str:
    status = next((answer.status for _, answer in PROBLEMS if answer.code == input.code), None)
    code = f"`{input.code}` {status}" if input.code else ""
    return f"| {input.name} | {input.place} | {input.bound} | {code} |\n"


if __name__ == "__main__":
    print(reference_page(), end="")  # noqa: T201  it is redirected into docs/reference/limits.md
