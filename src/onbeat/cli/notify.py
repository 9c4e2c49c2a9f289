"""`onbeat notify`."""

import asyncio
from collections.abc import Mapping
from typing import Any, Final

import click

from onbeat.cli.client import ConnectionOptions, json_option, with_client
from onbeat.cli.examples import examples
from onbeat.cli.exit_codes import FAILED, OK
from onbeat.cli.option_types import span, span_or_always
from onbeat.cli.options import (
    field,
    given_options,
    instants,
    job_options,
    json_of,
    retry_options,
    spec_body,
    text_or_file,
)
from onbeat.cli.output import show_json, show_message
from onbeat.model.job import JobSpec

EPILOG: Final = examples(
    "onbeat notify --channel ops --title 'Disk full' --text 'db-1 has 2 % left'",
    "onbeat notify --channel mail --to a@example.com --to b@example.com \\\n"
    "      --title Invoice --text @invoice.txt --unique invoice:4711",
    "onbeat notify --channel mail --to a@example.com --template bill \\\n"
    "      --data '{\"sum\": 7}'",
    "onbeat notify --test mail --to me@example.com",
)

TRIED: Final = frozenset({"channel", "to", "title", "text", "html", "template", "data"})
"""The options that a test of a channel takes."""


@click.command("notify", epilog=EPILOG)
@field("--channel", metavar="NAME", help="A channel of the configuration.")
@field("--to", multiple=True, metavar="WHOM", help="Recipient. Repeat for several.")
@field("--title", metavar="TEXT", help="Title, or subject of a mail.")
@field("--text", metavar="TEXT", help="What to say; @FILE reads a file, @- stdin.")
@field("--html", metavar="TEXT", help="The same as HTML, for mails and webhooks.")
@field("--template", metavar="NAME", help="A template of the configuration instead.")
@field("--data", metavar="JSON", help="What templates read as `data`.")
@field("--run-at", metavar="INSTANT", help="When it is due.  [default: now]")
@field("--delay", type=span, metavar="SPAN", help="How long from now it is due.")
@field("--expires-at", metavar="INSTANT", help="Give it up if it has not started by then.")
@field("--unique", metavar="KEY", help="Add nothing while a live job has this key and recipient.")
@field(
    "--unique-for",
    type=span_or_always,
    metavar="SPAN",
    help="Keep the key taken after the end: 31d, always.",
)
@job_options
@retry_options
@field("--test", metavar="CHANNEL", help="Send at once over this channel, from here.")
@json_option
@with_client
def notify(connection: ConnectionOptions, *, test: str | None, as_json: bool, **values: Any) -> int:
    """Tell people over a channel: a job for each recipient. Prints the ids.

    --test sends one notice over a channel of this configuration without a job, and says what
    happened; exit 1 when it was not sent.
    """
    if test is not None:
        return send_test(connection, test, values, as_json=as_json)
    if values["channel"] is None:
        raise click.UsageError("a notice needs a channel: --channel NAME")
    answer = connection.call("notification.send", body=notification_body(values))
    if as_json:
        show_json(answer)
        return OK
    for id in answer["ids"]:
        show_message(id)
    return OK


def notification_body(values: Mapping[str, Any]) -> dict[str, Any]:
    return {
        **content_body(values),
        **given_options(values, "channel", "delay"),
        **instants(values, "run_at", "expires_at"),
        **({"to": list(values["to"])} if values["to"] else {}),
        **spec_body(values, JobSpec),
    }


def content_body(values: Mapping[str, Any]) -> dict[str, Any]:
    body = given_options(values, "title", "template")
    for name in ("text", "html"):
        if values[name] is not None:
            body[name] = text_or_file(values[name])
    if values["data"] is not None:
        body["data"] = json_of(values["data"], dict, "--data", """'{"name": "Ada"}'""")
    return body


def send_test(
    connection: ConnectionOptions, channel: str, values: Mapping[str, Any], *, as_json: bool
) -> int:
    if values["channel"] is not None or len(values["to"]) > 1:
        raise click.UsageError("--test names the channel, and sends to one recipient at most")
    for name in values.keys() - TRIED:
        if values[name] not in (None, (), False):
            raise click.UsageError(f"--{name.replace('_', '-')} does not go with --test")
    if connection.server:
        raise click.UsageError("--test sends from here, by this configuration; leave --server out")
    from onbeat.app.channel_probe import send_now  # noqa: PLC0415  loads the channel's client

    content = content_body(values)
    if not content:
        content = {"title": "Onbeat", "text": f"A test of the channel {channel}."}
    to = next(iter(values["to"]), None)
    failure = asyncio.run(send_now(connection.settings(), channel, to, content))
    if as_json:
        show_json({"sent": failure is None, "error": failure})
    else:
        show_message("sent" if failure is None else failure)
    return OK if failure is None else FAILED
