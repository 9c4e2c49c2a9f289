"""`notifications`: exit codes are 0 for done, 1 for refused, 2 for wrong usage."""

import argparse
import asyncio
import json
import os
import sys
from collections.abc import Sequence

from notifications.commands import Answer, run
from notifications.config import Config, ConfigError, read_config
from notifications.database import open_database
from notifications.people import RefusedError
from notifications.schema import migrate
from notifications.usage import parser


def main(arguments: Sequence[str] | None = None) -> int:
    given, others = parser().parse_known_args(arguments)
    if others and given.noun != "up":
        parser().error(f"unrecognized arguments: {' '.join(others)}")
    try:
        config = read_config(os.environ)
        match given.noun:
            case "up":
                up(config, others)
            case "web":
                web(config, given.host, given.port)
            case _:
                show(asyncio.run(done(given, config)), as_json=given.json)
    except ConfigError as error:
        print(f"notifications: {error}", file=sys.stderr)
        return 2
    except RefusedError as error:
        answer = {"error": {"field": error.field, "message": str(error)}}
        print(json.dumps(answer) if given.json else f"notifications: {error}", file=sys.stderr)
        return 1
    return 0


async def done(given: argparse.Namespace, config: Config) -> Answer:
    from notifications.app import build  # noqa: PLC0415  loads Onbeat

    return await run(given, build(config))


def show(answer: Answer, *, as_json: bool) -> None:
    if as_json:
        print(json.dumps(answer, default=str))
        return
    for line in answer if isinstance(answer, list) else [answer]:
        print("  ".join(f"{name}={value}" for name, value in line.items()))


def up(config: Config, options: Sequence[str]) -> None:
    """Become `onbeat up`, with the tables made and the store of this environment."""
    asyncio.run(migrate(open_database(config.database)))
    environment = {**os.environ, "ONBEAT_STORE": config.jobs_store}
    command = [sys.executable, "-m", "onbeat", "up", "notifications.service:beat", *options]
    os.execve(sys.executable, command, environment)  # noqa: S606  no shell is wanted


def web(config: Config, host: str, port: int) -> None:
    import uvicorn  # noqa: PLC0415  other commands need no server

    from notifications.app import build  # noqa: PLC0415
    from notifications.web import build_web  # noqa: PLC0415

    uvicorn.run(build_web(build(config)), host=host, port=port, access_log=False)


if __name__ == "__main__":
    sys.exit(main())
