"""The verbs of recurrences."""

from onbeat.model.errors import BadRecurrence
from onbeat.operations.operator import Operator
from onbeat.recurrence import anchor, compile_spec, needs_anchor
from onbeat.wire.recurrences import FORM_OF_KIND, Preview, bad_rule, read_recurrence
from onbeat.wire.requests import PreviewRecurrence
from onbeat.wire.values import read_instant


async def preview(operator: Operator, request: PreviewRecurrence) -> Preview:
    """The next occurrences of a rule, as a schedule created at `after` would have them."""
    body = request.recurrence
    spec = read_recurrence(body, key="")
    after = read_instant(body.after, "after") if body.after else operator.clock.now()
    try:
        rule = compile_spec(anchor(spec, after) if needs_anchor(spec) else spec)
    except BadRecurrence as error:
        raise bad_rule(FORM_OF_KIND[spec.kind], error) from None
    return Preview(
        occurrences=tuple(rule.take(body.count, after)),
        description=rule.describe(),
        notes=tuple(note.text for note in rule.notes(after)),
    )
