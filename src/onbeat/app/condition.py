"""The public constructor of conditions."""

from typing import Any

from onbeat.app.call import Call, Span, span
from onbeat.model import condition
from onbeat.model.errors import Invalid
from onbeat.model.target import HandlerTarget, HttpTarget
from onbeat.wire.conditions import CANCEL
from onbeat.wire.values import MOMENT


def Condition(  # noqa: N802  named like the record that it makes
    text: str, *, ask: Call[Any] | None = None, otherwise: Span = CANCEL
) -> condition.Condition:
    """A condition: a CEL text, which must be true for the job to start.

    `ask` is a call of a task or of `http` whose answer the text may name as `answer`. Where it is
    false the job is cancelled, or put off by the span `otherwise`. Raises `Invalid` naming the
    invalid option.
    """
    target = None if ask is None else ask.target
    if not isinstance(target, (HandlerTarget, HttpTarget, type(None))):
        raise Invalid("ask must be a call of a task, or http(...): a message has no answer", "ask")
    postpone = None if otherwise == CANCEL else span("otherwise", otherwise)
    if postpone is not None and postpone < MOMENT:
        raise Invalid("otherwise must be 'cancel', or a span", "otherwise")
    return condition.Condition(text=text, ask=target, postpone=postpone)
