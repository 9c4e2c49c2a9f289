"""The operations of recurrences."""

from datetime import datetime

from onbeat.model.errors import BadRecurrence, TooCostly
from onbeat.operations.context import OperationContext
from onbeat.recurrence import anchor, needs_anchor, value_of
from onbeat.wire.recurrences import (
    FORM_OF_KIND,
    Preview,
    PreviewBody,
    bad_rule,
    form_of,
    read_recurrence,
    too_costly,
)
from onbeat.wire.requests import PreviewRecurrence
from onbeat.wire.values import read_instant


async def preview(context: OperationContext, request: PreviewRecurrence) -> Preview:
    """The next occurrences of a rule, as a schedule created at `after` would have them."""
    body = request.recurrence
    now = context.clock.now()
    try:
        return await context.compute(lambda it: build_preview(it, body, now))
    except TooCostly as error:
        raise too_costly(form_of(body), error) from None


def build_preview(context: OperationContext, body: PreviewBody, now: datetime) -> Preview:
    budget = context.budget
    spec = read_recurrence(body, key="", budget=budget)
    after = read_instant(body.after, "after") if body.after else now
    try:
        # Does not use the cache of compiled rules: a previewed rule may never be stored.
        rule = value_of(anchor(spec, after, budget) if needs_anchor(spec) else spec, budget)
    except TooCostly:
        raise
    except BadRecurrence as error:
        raise bad_rule(FORM_OF_KIND[spec.kind], error) from None
    return Preview(
        occurrences=tuple(rule.take(body.count, after)),
        description=rule.describe(),
        notes=tuple(note.text for note in rule.notes(after)),
    )
