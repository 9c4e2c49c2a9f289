"""Faults of jobs, and dead letters."""

from typing import Any, Final

from onbeat.model.principal import Scope
from onbeat.operations import dead_letter_groups, dead_letters, failures
from onbeat.operations.tables.operation import Operation
from onbeat.wire.dead_letters import DeadLetterDetail, DeadLettersAnswer, Replayed
from onbeat.wire.failures import (
    DeadLetterGroupById,
    DeadLetterGroupsAnswer,
    FailureById,
    FailureInfo,
    FailuresAnswer,
    GroupReplayed,
    ListDeadLetterGroups,
    ListFailures,
    NoteFailure,
    ReplayFailures,
    SilenceFailure,
)
from onbeat.wire.requests import DeadLetterById, ListDeadLetters, Message

FAILURE_LIST: Final = Operation(
    name="failure.list",
    id="listFailures",
    summary="Failures that are alike, by fault",
    function=failures.list_failures,
    request=ListFailures,
    answer=FailuresAnswer,
    method="GET",
    path="/api/failures",
    scope=Scope.READ,
)

FAILURE_SHOW: Final = Operation(
    name="failure.show",
    id="getFailure",
    summary="Show a fault with its newest jobs, and attempts by hour",
    function=failures.show,
    request=FailureById,
    answer=FailureInfo,
    method="GET",
    path="/api/failures/{fault}",
    scope=Scope.READ,
)

FAILURE_SILENCE: Final = Operation(
    name="failure.silence",
    id="silenceFailure",
    summary="Leave a fault out of what needs somebody, for a time",
    function=failures.silence,
    request=SilenceFailure,
    answer=FailureInfo,
    method="POST",
    path="/api/failures/{fault}/silence",
    body="silence",
    body_required=True,
    scope=Scope.OPERATE,
)

FAILURE_NOTE: Final = Operation(
    name="failure.note",
    id="noteFailure",
    summary="Write a note about a fault for others who look",
    function=failures.write_note,
    request=NoteFailure,
    answer=FailureInfo,
    method="PUT",
    path="/api/failures/{fault}/note",
    body="note",
    body_required=True,
    scope=Scope.OPERATE,
)

FAILURE_REPLAY: Final = Operation(
    name="failure.replay",
    id="replayFailures",
    summary="Retry the failed jobs of a fault",
    function=failures.replay,
    request=ReplayFailures,
    answer=GroupReplayed,
    method="POST",
    path="/api/failures/{fault}/replay",
    body="replay",
    body_required=False,
    scope=Scope.OPERATE,
)

DEAD_LIST: Final = Operation(
    name="dead.list",
    id="listDeadLetters",
    summary="List dead letters, newest first",
    function=dead_letters.list_dead_letters,
    request=ListDeadLetters,
    answer=DeadLettersAnswer,
    method="GET",
    path="/api/dead",
    scope=Scope.READ,
)

DEAD_SHOW: Final = Operation(
    name="dead.show",
    id="getDeadLetter",
    summary="Show a dead letter in full",
    function=dead_letters.show,
    request=DeadLetterById,
    answer=DeadLetterDetail,
    method="GET",
    path="/api/dead/{id}",
    scope=Scope.READ,
)

DEAD_REPLAY: Final = Operation(
    name="dead.replay",
    id="replayDeadLetter",
    summary="Replay a dead letter; it is deleted on success",
    function=dead_letters.replay,
    request=DeadLetterById,
    answer=Replayed,
    method="POST",
    path="/api/dead/{id}/replay",
    scope=Scope.OPERATE,
    takes_key=True,
)

DEAD_DELETE: Final = Operation(
    name="dead.delete",
    id="deleteDeadLetter",
    summary="Delete a dead letter",
    function=dead_letters.delete,
    request=DeadLetterById,
    answer=Message,
    method="DELETE",
    path="/api/dead/{id}",
    scope=Scope.OPERATE,
)

DEAD_GROUPS: Final = Operation(
    name="dead.groups",
    id="listDeadLetterGroups",
    summary="Dead letters by source and reason",
    function=dead_letter_groups.list_groups,
    request=ListDeadLetterGroups,
    answer=DeadLetterGroupsAnswer,
    method="GET",
    path="/api/dead-groups",
    scope=Scope.READ,
)

DEAD_REPLAY_GROUP: Final = Operation(
    name="dead.replay_group",
    id="replayDeadLetterGroup",
    summary="Replay the dead letters of a group",
    function=dead_letter_groups.replay_group,
    request=DeadLetterGroupById,
    answer=GroupReplayed,
    method="POST",
    path="/api/dead-groups/{group}/replay",
    body="replay",
    body_required=False,
    scope=Scope.OPERATE,
)

DEAD_DELETE_GROUP: Final = Operation(
    name="dead.delete_group",
    id="deleteDeadLetterGroup",
    summary="Delete the dead letters of a group",
    function=dead_letter_groups.delete_group,
    request=DeadLetterGroupById,
    answer=GroupReplayed,
    method="POST",
    path="/api/dead-groups/{group}/delete",
    body="replay",
    body_required=False,
    scope=Scope.OPERATE,
)

OPERATIONS: Final[tuple[Operation[Any, Any], ...]] = (
    FAILURE_LIST,
    FAILURE_SHOW,
    FAILURE_SILENCE,
    FAILURE_NOTE,
    FAILURE_REPLAY,
    DEAD_LIST,
    DEAD_SHOW,
    DEAD_REPLAY,
    DEAD_DELETE,
    DEAD_GROUPS,
    DEAD_REPLAY_GROUP,
    DEAD_DELETE_GROUP,
)
