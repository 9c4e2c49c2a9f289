"""`onbeat doctor`."""

import asyncio
from collections.abc import Sequence
from pathlib import Path

import click
import msgspec

from onbeat.app.doctor import findings_of
from onbeat.cli.backend import open_store_of
from onbeat.cli.client import ConnectionOptions, config_option, json_option
from onbeat.cli.exit_codes import FAILED, OK
from onbeat.cli.migrate import store_option
from onbeat.cli.output import plain, show_json, show_table, styled_state
from onbeat.cli.times import local_now
from onbeat.ports.store import Finding
from onbeat.settings import Settings


@click.command("doctor")
@store_option
@config_option
@json_option
def doctor(store: str | None, config: Path | None, *, as_json: bool) -> int:
    """Check store, brokers, clock, time zones and limits; exit 1 when a check fails."""
    connection = ConnectionOptions(store=store, config=config)
    result = asyncio.run(inspect_store(connection.settings()))
    findings = asyncio.run(findings_of(connection.settings(), result, local_now()))
    if as_json:
        show_json({"findings": [msgspec.structs.asdict(finding) for finding in findings]})
    else:
        show_findings(findings)
    return OK if all(finding.ok for finding in findings) else FAILED


async def inspect_store(settings: Settings) -> Sequence[Finding]:
    async with open_store_of(settings) as backend:
        return await backend.store.doctor()


def show_findings(findings: Sequence[Finding]) -> None:
    rows = [
        (styled_state("ok" if result.ok else "warn"), plain(result.name), finding_line(result))
        for result in findings
    ]
    show_table(("", "WHAT", "FOUND"), rows, empty="", whole=("", "WHAT"))


def finding_line(finding: Finding) -> str:
    return plain(
        finding.value if finding.ok or not finding.remedy else f"{finding.value}: {finding.remedy}"
    )
