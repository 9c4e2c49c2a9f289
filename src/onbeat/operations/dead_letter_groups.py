"""Dead letters of one source whose reasons are alike: list, replay and delete them together."""

from collections.abc import Sequence
from typing import Final

import msgspec

from onbeat.model.errors import Conflict, NotFound
from onbeat.model.fault import DeadLetterHead
from onbeat.model.ids import DeadLetterId
from onbeat.model.limits import FAULT_JOBS_MAX
from onbeat.operations.context import OperationContext
from onbeat.operations.dead_letters import replay as replay_letter
from onbeat.rules.faults import TITLE_CHARS_MAX, generic, key_from
from onbeat.wire.failures import (
    DeadLetterGroup,
    DeadLetterGroupById,
    DeadLetterGroupsAnswer,
    GroupReplayed,
    ListDeadLetterGroups,
    read_fault_key,
)
from onbeat.wire.requests import DeadLetterById
from onbeat.wire.values import dead_letter_id

ABSENT: Final = "Group not found"


class KnownHeads(msgspec.Struct, frozen=True):
    """The newest dead letters, and whether there are older ones that were not looked at."""

    heads: Sequence[DeadLetterHead]
    more: bool


async def list_groups(
    context: OperationContext, request: ListDeadLetterGroups
) -> DeadLetterGroupsAnswer:
    """The group with the newest letter first."""
    known = await newest_heads(context, None)
    groups: dict[int, list[DeadLetterHead]] = {}
    for head in known.heads:
        groups.setdefault(group_of(head), []).append(head)
    return DeadLetterGroupsAnswer(
        groups=tuple(
            group_answer(key, heads) for key, heads in list(groups.items())[: request.limit]
        ),
        total=len(groups),
        looked_at=len(known.heads),
        more=known.more,
    )


def group_of(head: DeadLetterHead) -> int:
    """The same for letters of one source whose reasons differ in numbers and ids only."""
    return key_from("dead-letter", head.source, generic(head.reason))


def group_answer(key: int, heads: Sequence[DeadLetterHead]) -> DeadLetterGroup:
    """`heads` are newest first."""
    return DeadLetterGroup(
        group=str(key),
        source=heads[0].source,
        reason=generic(heads[0].reason)[:TITLE_CHARS_MAX],
        letters=len(heads),
        first_at=min(head.at for head in heads),
        last_at=max(head.at for head in heads),
        sample=heads[0].id,
    )


async def newest_heads(context: OperationContext, before: DeadLetterId | None) -> KnownHeads:
    heads = await context.store.dead_letter_heads(before, FAULT_JOBS_MAX + 1)
    return KnownHeads(heads[:FAULT_JOBS_MAX], len(heads) > FAULT_JOBS_MAX)


async def replay_group(context: OperationContext, request: DeadLetterGroupById) -> GroupReplayed:
    """Process letters of the group like new messages, newest first; what fails again is kept."""
    chosen, answer = await choose(context, request)
    if request.replay.dry_run:
        return answer
    done = 0
    for head in chosen:
        done += await replayed(context, head)
    return msgspec.structs.replace(answer, done=done, skipped=len(chosen) - done)


async def replayed(context: OperationContext, head: DeadLetterHead) -> bool:
    try:
        return (await replay_letter(context, DeadLetterById(head.id))).replayed
    except (Conflict, NotFound):
        return False


async def delete_group(context: OperationContext, request: DeadLetterGroupById) -> GroupReplayed:
    """Delete letters of the group for good."""
    chosen, answer = await choose(context, request)
    if request.replay.dry_run or not chosen:
        return answer
    ids = [DeadLetterId(head.id) for head in chosen]
    done = await context.store.delete_dead_letters(ids)
    return msgspec.structs.replace(answer, done=done, skipped=len(chosen) - done)


async def choose(
    context: OperationContext, request: DeadLetterGroupById
) -> tuple[Sequence[DeadLetterHead], GroupReplayed]:
    """The letters that a call is about, and what a dry run answers.

    Raises `NotFound` where a first call finds none.
    """
    key, how = read_fault_key(request.group, "group"), request.replay
    before = dead_letter_id(how.cursor, "cursor") if how.cursor else None
    known = await newest_heads(context, before)
    found = [head for head in known.heads if group_of(head) == key]
    if not found and before is None and not known.more:
        raise NotFound(ABSENT)
    chosen = found[: how.limit]
    has_more = len(found) > len(chosen) or known.more
    last = chosen[-1:] if len(found) > len(chosen) else known.heads[-1:]
    return chosen, GroupReplayed(
        dry_run=how.dry_run,
        matched=len(chosen),
        done=len(chosen),
        skipped=0,
        more=has_more,
        cursor=last[0].id if has_more and last else None,
    )
