"""A section that several viewers ask for at the same moment is read and drawn once.

A pulse of the stream reaches all viewers of a page within a moment, and each asks for the same
section. Those with the same rights and the same zone are given one text.
"""

import asyncio
import secrets
from collections.abc import Awaitable, Callable, Hashable
from dataclasses import dataclass
from typing import Final
from weakref import WeakKeyDictionary

import msgspec

from onbeat.dashboard.viewer import Viewer
from onbeat.ports.store import Store

Draw = Callable[[Viewer, str | None], Awaitable[str]]
"""The text of a section for a viewer, with this proof in its forms, or with none."""

SHARED_SECONDS: Final = 1.0
"""Half of the least time between two pulses: nobody is shown what was read at an earlier one."""
SECTIONS_MAX: Final = 16
"""Of one store: each has about 50 kB."""
ANY_PROOF: Final = secrets.token_hex(32)
"""In the place of a session's proof. It never leaves this process, so that no text can have it."""


@dataclass(frozen=True)
class Section:
    """Begun at an instant of the monotonic clock, after so many changes other than jobs'."""

    begun: float
    changes: int
    task: asyncio.Task[str]


_sections: WeakKeyDictionary[Store, dict[Hashable, Section]] = WeakKeyDictionary()


async def shared_section(viewer: Viewer, proof: str | None, draw: Draw) -> str:
    """What `draw` makes, or made for another viewer within the last second.

    Only while somebody has the stream. A text is not shared any more once a queue, a schedule, an
    alert or a bulk has changed. Raises what `draw` raises.
    """
    context = viewer.context
    if not context.live.is_read:
        return await draw(viewer, proof)
    now, changes = context.clock.monotonic(), context.live.changes
    known = _sections.setdefault(context.store, {})
    key = key_of(viewer, has_proof=proof is not None)
    one = known.get(key)
    if one is None or not is_fresh(one, now, changes):
        one = Section(now, changes, asyncio.create_task(begun(viewer, proof, draw)))
        known.pop(key, None)
        known[key] = one
        while len(known) > SECTIONS_MAX:
            del known[next(iter(known))]
    text = await asyncio.shield(one.task)
    return text if proof is None else text.replace(ANY_PROOF, proof)


def key_of(viewer: Viewer, *, has_proof: bool) -> Hashable:
    """What a text depends on beside the store: it names nobody."""
    url = viewer.request.url
    return url.path, url.query, viewer.zone.key, viewer.principal.scopes, has_proof


def is_fresh(one: Section, now: float, changes: int) -> bool:
    """The text of another event loop is of no use here; one that failed is tried again."""
    if one.task.get_loop() is not asyncio.get_running_loop():
        return False
    is_bad = one.task.done() and (one.task.cancelled() or one.task.exception() is not None)
    return not is_bad and one.changes == changes and now - one.begun < SHARED_SECONDS


async def begun(viewer: Viewer, proof: str | None, draw: Draw) -> str:
    """It goes on when the viewer who began it leaves: others may wait for it."""
    context = msgspec.structs.replace(viewer.context, gone=None)
    return await draw(viewer.with_context(context), None if proof is None else ANY_PROOF)
