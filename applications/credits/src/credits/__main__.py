"""`credits`: what an operator does by hand. Exit codes: 0 done, 1 refused, 2 wrong usage."""

import argparse
import asyncio
import dataclasses
import json
import os
import sys
from collections.abc import Sequence
from datetime import UTC, datetime

from credits.adjustments import RefusedError, add
from credits.config import Config, ConfigError, read_config
from credits.database import open_database
from credits.schema import migrate
from credits.tiers import limit_for


def main(arguments: Sequence[str] | None = None) -> int:
    given, others = parser().parse_known_args(arguments)
    if others and given.command != "up":
        parser().error(f"unrecognized arguments: {' '.join(others)}")
    try:
        config = read_config(os.environ)
        if given.command == "up":
            return up(config, others)
        return asyncio.run(done(given, config))
    except ConfigError as error:
        print(f"credits: {error}", file=sys.stderr)
        return 2
    except RefusedError as error:
        print(f"credits: {error}", file=sys.stderr)
        return 1


def parser() -> argparse.ArgumentParser:
    result = argparse.ArgumentParser("credits", description="The house-keeping of the game.")
    commands = result.add_subparsers(dest="command", required=True, metavar="COMMAND")
    add_one = commands.add_parser("add", help="give a user paid credits")
    add_one.add_argument("email")
    add_one.add_argument("amount", type=int)
    add_one.add_argument("reason", nargs="?", default="")
    add_one.add_argument("--prefix", choices=["Admin", "Gift"], default="Admin")
    tier = commands.add_parser("tier", help="print the monthly limit of a new user")
    tier.add_argument("email")
    commands.add_parser("migrate", help="make the tables that are not there yet")
    commands.add_parser("status", help="print what a status page shows, as JSON")
    commands.add_parser("up", help="run the jobs and the API; takes the options of `onbeat up`")
    return result


async def done(given: argparse.Namespace, config: Config) -> int:
    now = datetime.now(UTC)
    match given.command:
        case "add":
            async with open_database(config.database).session() as session:
                await add(session, given.email, given.amount, given.reason, given.prefix, now)
            print(f"{given.email} has {given.amount} more credits")
        case "tier":
            print(limit_for(given.email, config))
        case "migrate":
            await migrate(open_database(config.database))
        case _:
            await print_status(config, now)
    return 0


async def print_status(config: Config, now: datetime) -> None:
    # Imported here: the other commands need no Onbeat.
    from credits.app import build  # noqa: PLC0415
    from credits.status import status_of  # noqa: PLC0415

    program = build(config)
    try:
        status = await status_of(program, now)
    finally:
        await program.beat.aclose()
    print(json.dumps(dataclasses.asdict(status), default=str, indent=2))


def up(config: Config, options: Sequence[str]) -> int:
    """Become `onbeat up`, with the tables made; the program names its store."""
    asyncio.run(migrate(open_database(config.database)))
    command = [sys.executable, "-m", "onbeat", "up", "credits.service:beat", *options]
    os.execv(sys.executable, command)  # noqa: S606  no shell is wanted


if __name__ == "__main__":
    sys.exit(main())
