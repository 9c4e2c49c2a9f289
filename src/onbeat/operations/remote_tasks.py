"""Declarations of remote tasks, from programs and configurations."""

from collections.abc import Iterable
from datetime import timedelta

from onbeat.model.errors import Invalid
from onbeat.model.remote_task import RemoteTask
from onbeat.rules.submission_keys import params_in
from onbeat.wire.options import read_key, read_unique_for
from onbeat.wire.values import SpanForm, read_name, read_task


def read_remote_task(
    name: str,
    *,
    requires: Iterable[str] = (),
    key: str | None = None,
    unique_for: SpanForm | timedelta | None = None,
) -> RemoteTask:
    """A checked declaration. Raises `Invalid`, which names the field."""
    if isinstance(unique_for, timedelta):
        unique_for = unique_for.total_seconds()
    if unique_for is not None and key is None:
        raise Invalid("unique_for says how long a key stays taken; give key", "unique_for")
    if isinstance(requires, str):
        raise Invalid("requires must be a list of names of params", "requires")
    if read_key(key, "key") is not None:
        params_in(key or "", "key")
    return RemoteTask(
        name=read_task(name, "name"),
        requires=tuple(read_name(param, "requires") for param in requires),
        key=key,
        unique_for=read_unique_for(unique_for, "unique_for"),
    )
