"""Options that choose jobs, as `GET /api/jobs` does."""

from collections.abc import Mapping
from typing import Any, Final

import click

from onbeat.cli.option_types import STATE
from onbeat.cli.options import field, options
from onbeat.cli.times import local_now, utc_text
from onbeat.model.errors import Invalid
from onbeat.rules.job_search import read_moment
from onbeat.wire.bulks import label_filter

NAMES: Final = (
    *("state", "queue", "task", "schedule_id", "flow", "fault", "label", "since", "until"),
    *("error", "unique"),
)
WHEN: Final = "An instant, 2h for so long ago, today or yesterday"

job_filter_options = options(
    field(
        "--state",
        type=STATE,
        metavar="STATE",
        help="waiting, running, succeeded, failed or cancelled.",
    ),
    field("--queue", metavar="NAME", help="Only of this queue."),
    field("--task", metavar="NAME", help="Only of this task; a * at the end is any rest."),
    field("--schedule-id", metavar="ID", help="Only of this schedule."),
    field("--flow", metavar="ID", help="Only of this flow."),
    field("--fault", metavar="FAULT", help="Only of this fault; see failure list."),
    field("--label", multiple=True, metavar="K:V", help="With this label; repeat for several."),
    field("--since", metavar="WHEN", help=f"Ended, or else due, then or later. {WHEN}."),
    field("--until", metavar="WHEN", help="Ended, or else due, before; as --since."),
    field("--error", metavar="TEXT", help="With this in the error, in any case."),
    field("--unique", metavar="KEY", help="With this unique key."),
)


def filters_of(values: Mapping[str, Any]) -> dict[str, str]:
    """The filters that were given, as the API takes them."""
    given = {name: values[name] for name in NAMES if values.get(name)}
    if "label" in given:
        given["label"] = label_filter(tuple(map(with_colon, given["label"])))
    for name in ("since", "until"):
        if name in given:
            given[name] = moment_text(given[name], name)
    return given


def with_colon(label: str) -> str:
    """`K=V`, as `--label` of new jobs, means the same."""
    return label if ":" in label else label.replace("=", ":", 1)


def moment_text(text: str, name: str) -> str:
    now = local_now()
    zone = now.astimezone().tzinfo
    assert zone is not None, "a local time has a zone"
    try:
        return utc_text(read_moment(text, f"--{name}", now, zone))
    except Invalid as error:
        raise click.UsageError(str(error)) from None
