"""The groups of a queue, from its jobs as far as they were read."""

from collections import Counter
from collections.abc import Iterable, Mapping

from onbeat.model.queue import GroupDepth, GroupDepths


def group_depths(
    ready: Iterable[str | None],
    running: Iterable[str | None],
    turns: Mapping[str, int],
    *,
    more: bool,
) -> GroupDepths:
    """By how many jobs of each are ready, then run. `turns` are the newest ones by group."""
    waits, runs = Counter(one or "" for one in ready), Counter(one or "" for one in running)
    newest = max(turns.values(), default=0)
    found = [
        GroupDepth(
            group=group,
            waiting=waits[group],
            running=runs[group],
            starts_since=newest - turns[group] if group in turns else None,
        )
        for group in dict.fromkeys([*waits, *runs])
    ]
    found.sort(key=lambda one: (-one.waiting, -one.running, one.group))
    return GroupDepths(tuple(found), more)
