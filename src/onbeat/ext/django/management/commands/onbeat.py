"""`manage.py onbeat …`: the command line of Onbeat, with the project's program and store."""

import os
import sys
from argparse import REMAINDER, ArgumentParser
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from onbeat.ext.django.configuration import configuration

PROGRAM = "onbeat.ext.django:beat"


class Command(BaseCommand):
    help = "The command line of Onbeat: `onbeat up` runs the project's tasks, `onbeat job list` …"

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("arguments", nargs=REMAINDER, help="As of `onbeat`; try `-- --help`.")

    def handle(self, *_args: Any, **options: Any) -> None:
        """Ends with the exit code of the command."""
        from onbeat.cli.main import root  # noqa: PLC0415  its groups take long to load

        arguments = [one for one in options["arguments"] if one != "--"]
        if not arguments:
            raise CommandError("what to do is missing, such as `manage.py onbeat up`")
        if arguments[0] == "up":
            arguments.insert(1, PROGRAM)
            let_others_import(sys.path[0])
        else:
            name_store(arguments)
        sys.argv = ["onbeat", *arguments]  # `onbeat up` starts worker processes by these
        root.main(arguments)


def let_others_import(folder: str) -> None:
    """Worker processes import the project as this process does."""
    known = os.environ.get("PYTHONPATH")
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, (folder, known)))


def name_store(arguments: list[str]) -> None:
    """Other commands talk to the project's store or service, unless told otherwise."""
    found = configuration()
    if any(one.partition("=")[0] in {"--store", "--server", "--config"} for one in arguments):
        return
    if found.url.startswith(("http://", "https://")):
        os.environ.setdefault("ONBEAT_SERVER", found.url)
        if found.api_key is not None:
            os.environ.setdefault("ONBEAT_API_KEY", found.api_key)
    else:
        os.environ.setdefault("ONBEAT_STORE", found.url)
