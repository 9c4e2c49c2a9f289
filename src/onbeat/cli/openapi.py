"""`onbeat openapi`."""

from typing import Any

import click

from onbeat.cli.examples import examples


@click.command("openapi", epilog=examples("onbeat openapi --format json > openapi.json"))
@click.option(
    "--format",
    "form",
    type=click.Choice(["yaml", "json"]),
    default="yaml",
    show_default=True,
    help="Which notation.",
)
def openapi(form: str) -> None:
    """Print the API's OpenAPI 3.1 document."""
    from onbeat.api import openapi_json, openapi_yaml  # noqa: PLC0415  doctor needs no API

    text: Any = openapi_yaml() if form == "yaml" else openapi_json()
    click.echo(text.decode() if isinstance(text, bytes) else text)
