"""A recurrence as an English sentence."""

from onbeat.recurrence.spec import RecurrenceSpec


def describe(spec: RecurrenceSpec) -> str:
    return spec.text
