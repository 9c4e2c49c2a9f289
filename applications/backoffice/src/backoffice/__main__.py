"""`backoffice`: its processes, and what system cron or an operator runs by hand.

Exit codes: 0 done, 1 failed, 2 wrong usage or configuration, 4 not ended in time.
"""

import argparse
import asyncio
import dataclasses
import json
import os
import sys
from collections.abc import Mapping, Sequence
from contextlib import aclosing, suppress
from typing import Final

from asyncmy.errors import MySQLError

from backoffice.commands import DONE, FAILED, USAGE, Command, Execution, Report
from backoffice.config import Config, ConfigError, read_config
from backoffice.database import Database
from backoffice.environment import Role, RoleError, for_onbeat, of_process, role_of
from backoffice.mails.selections import KINDS
from backoffice.schema import SchemaError, migrate
from backoffice.status import status_of
from backoffice.tasks import ANNUAL, BILLING_QUEUE, DEBUG, MONTHLY, RETRY_FAILED
from backoffice.upkeep import CLEAN_UP_USERS, REMOVE_LOGS
from onbeat import NotFound, Onbeat, OnbeatError

COMMANDS: Final = {
    "cleanup": Command("delete users who never set a password", [CLEAN_UP_USERS]),
    "background_emails": Command(
        "send the mails that are due", [f"mails.{name}" for name in KINDS], "mails"
    ),
    "monthly_billing": Command("bill the last month", [MONTHLY], BILLING_QUEUE),
    "annual_billing": Command("bill the last year", [ANNUAL], BILLING_QUEUE),
    "retry_failed_billing_attempts": Command(
        "charge unpaid invoices again", [RETRY_FAILED], BILLING_QUEUE
    ),
    "remove_logs": Command("delete old log rows", [REMOVE_LOGS]),
}


FORMER_REPORT: Final = "billing.report_failed"
"""The charge writes its message itself."""


def main(arguments: Sequence[str] | None = None) -> int:
    given, others = parser().parse_known_args(arguments)
    if others and given.command != "up":
        parser().error(f"unrecognized arguments: {' '.join(others)}")
    try:
        variables = of_process()
        if given.command == "up":
            return up(variables, others)
        return asyncio.run(done(given, read_config(variables)))
    except ConfigError as error:
        print(f"backoffice: {error}", file=sys.stderr)
        # As the old image did.
        return FAILED if isinstance(error, RoleError) else USAGE
    except (OnbeatError, SchemaError, MySQLError) as error:
        print(f"backoffice: {error}", file=sys.stderr)
        return FAILED


def parser() -> argparse.ArgumentParser:
    result = argparse.ArgumentParser(
        "backoffice", description="The billing back office: its processes and its commands."
    )
    commands = result.add_subparsers(dest="command", required=True, metavar="COMMAND")
    for name, command in COMMANDS.items():
        one = commands.add_parser(name, help=command.help)
        one.add_argument("--timeout", type=float, default=7200, metavar="SECONDS")
        one.add_argument("--json", action="store_true", help="print JSON for programs")
    commands.add_parser("migrate", help="make the tables and columns that are not there yet")
    commands.add_parser("status", help="print runs, queues and failures, as JSON")
    commands.add_parser("up", help="run the role of RUN_AS; takes the options of `onbeat up`")
    return result


async def done(given: argparse.Namespace, config: Config) -> int:
    match given.command:
        case "migrate":
            await migrated(config)
            return DONE
        case "status":
            print(json.dumps(await status_of(config), default=str, indent=2))
            return DONE
        case _:
            return await executed(given, config)


async def migrated(config: Config) -> None:
    database = Database(config.database)
    try:
        async with database.session() as session:
            await migrate(session)
    finally:
        await database.close()


async def executed(given: argparse.Namespace, config: Config) -> int:
    beat, database = Onbeat(config.jobs_store), Database(config.database)
    show = ignored if given.json else shown
    try:
        execution = Execution(beat, database, given.command, COMMANDS[given.command], show)
        report = await execution.finish(given.timeout)
    except NotFound as error:
        print(f"backoffice: {error}; start `backoffice up` once", file=sys.stderr)
        return FAILED
    finally:
        await database.close()
        await beat.aclose()
    if given.json:
        print(json.dumps(dataclasses.asdict(report)))
    else:
        print_report(report)
    return report.code


def shown(line: str) -> None:
    print(line, flush=True)


def ignored(_: str) -> None:
    """For programs only the report is printed."""


def print_report(report: Report) -> None:
    for job in report.jobs:
        print(f"{job.name}: {job.error or json.dumps(job.result)}")
    if report.bills:
        print(f"bills: {report.bills.declined} declined for good, {report.bills.failed} failed")
        for error in report.bills.errors:
            print(f"  {error}")
    rest = f", {report.pending} jobs go on" if report.pending else ""
    print(f"{report.command}: exit code {report.code} after {report.seconds:g} s{rest}")


async def prepared(config: Config, role: Role) -> None:
    """Make the tables; and end the schedules that are none any more, as they outlive a program."""
    await migrated(config)
    if role.plans:
        async with aclosing(Onbeat(config.jobs_store)) as beat:
            for key in (FORMER_REPORT, *(() if config.debug else (DEBUG,))):
                with suppress(NotFound):
                    await beat.schedules.adelete(key)


def up(variables: Mapping[str, str], options: Sequence[str]) -> int:
    """Become `onbeat up`, with the tables made, in the role and the log of this environment."""
    role = role_of(variables)
    config = read_config(variables)
    environment = for_onbeat(config, variables, role)
    asyncio.run(prepared(config, role))
    command = [sys.executable, "-m", "onbeat", "up", "backoffice.service:beat", *options]
    os.execve(sys.executable, command, environment)  # noqa: S606  no shell is wanted


if __name__ == "__main__":
    sys.exit(main())
