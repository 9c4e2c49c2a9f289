"""The words of the command line, as a table."""

from argparse import ArgumentParser
from typing import Any, Final

Argument = tuple[str, dict[str, Any]]


def option(name: str, default: Any = "", **more: Any) -> Argument:
    return f"--{name}", {"default": default, **more}


def place(name: str, **more: Any) -> Argument:
    return name, more


def flag(name: str, help: str) -> Argument:
    return f"--{name}", {"action": "store_true", "help": help}


TEXTS: Final = (
    option("title", required=True, help="Liquid over data.event, data.name, data.unsubscribe"),
    option("text", required=True, help="likewise"),
    option("html", help="likewise, for mail"),
)
LIMIT_MAX: Final = 1_000
PAGE: Final = (
    option("after", help="of the last one of the page before"),
    option("limit", 100, type=int, help=f"1 to {LIMIT_MAX}"),
)
WISH: Final = (place("recipient"), place("topic"), place("channel"))
DATA: Final = option("data", "{}", help="a JSON object; its `recipient` names the only one")

USAGE: Final[dict[str, tuple[str, tuple[Argument, ...]]]] = {
    "migrate": ("make the tables that are not there yet", ()),
    "recipient add": (
        "add a recipient, or change one",
        (
            place("id"),
            place("name"),
            option("language", "en"),
            option("zone", "UTC"),
            option("window", [], action="append", help="such as MON-FRI 08:00-20:00; repeat it"),
            option("quiet", [], action="append", help="none at such as 22:00-07:00; repeat it"),
        ),
    ),
    "recipient list": ("list recipients by id", PAGE),
    "address add": (
        "give a recipient an address, or change it",
        (
            place("recipient"),
            place("channel"),
            place("address", nargs="?", default=""),
            flag("verified", "without it, nothing is sent there"),
        ),
    ),
    "address list": ("list the addresses of a recipient", (place("recipient"),)),
    "topic add": (
        "add a topic, or change one",
        (
            place("name"),
            option("language", "en", help="of this text, and for all who have no text of theirs"),
            *TEXTS,
            flag("critical", "at all hours"),
            flag("sensitive", "never shown in answers and lists"),
            option("good-for", help="such as 2m: no later after the event"),
        ),
    ),
    "topic list": ("list topics with their texts", ()),
    "text add": (
        "give a topic a text in a language, or change it",
        (place("topic"), place("language"), *TEXTS),
    ),
    "preference set": (
        "allow or forbid a topic over a channel",
        (*WISH, place("allowed", choices=["yes", "no"])),
    ),
    "link show": ("print a link to unsubscribe", WISH),
    "publish": (
        "publish an event: at once, later, or if something holds",
        (
            place("topic"),
            DATA,
            option("id", help="with the same one, nothing happens twice"),
            option("at", help="an instant such as 2030-01-01T09:00+01:00"),
            option("delay", help="a span such as 10m"),
            option("if", dest="condition", help="a condition in CEL, judged when it is due"),
        ),
    ),
    "schedule put": (
        "publish an event again and again",
        (place("key"), place("topic"), option("cron", required=True), option("zone", "UTC"), DATA),
    ),
    "notice list": ("what became of an event, for each recipient", (place("event"), *PAGE)),
    "web": (
        "serve the page to unsubscribe",
        (option("host", "127.0.0.1"), option("port", 8090, type=int)),
    ),
    "up": ("run the jobs and the API; takes the options of `onbeat up`", ()),
}


def parser() -> ArgumentParser:
    result = ArgumentParser("notifications", description="Who wants what, when, on Onbeat.")
    nouns = result.add_subparsers(dest="noun", required=True, metavar="COMMAND")
    verbs: dict[str, Any] = {}
    for name, (help, arguments) in USAGE.items():
        noun, _, verb = name.partition(" ")
        if verb and noun not in verbs:
            group = nouns.add_parser(noun, help=f"{noun}s")
            verbs[noun] = group.add_subparsers(dest="verb", required=True, metavar="VERB")
        one: ArgumentParser = (verbs[noun] if verb else nouns).add_parser(verb or noun, help=help)
        one.add_argument("--json", action="store_true", help="print JSON")
        for word, more in arguments:
            one.add_argument(word, **more)
    return result
