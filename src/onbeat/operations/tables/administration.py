"""Keys, sessions, settings, secrets and the audit."""

from typing import Any, Final

from onbeat.model.principal import Scope
from onbeat.operations import audit, keys, secrets, settings
from onbeat.operations.tables.operation import Operation
from onbeat.wire.access import (
    AuditListAnswer,
    CreatedKey,
    CreateKey,
    KeyByName,
    KeysAnswer,
    ListAudit,
)
from onbeat.wire.requests import Message, NoParams
from onbeat.wire.secrets import Reencrypt, ReencryptedAnswer
from onbeat.wire.settings import SessionsAnswer, SettingsAnswer

KEY_CREATE: Final = Operation(
    name="key.create",
    id="createKey",
    summary="Make a key; the answer is the only place where it is shown",
    function=keys.create,
    request=CreateKey,
    answer=CreatedKey,
    method="POST",
    path="/api/keys",
    status=201,
    body="key",
    scope=Scope.ADMIN,
)

KEY_LIST: Final = Operation(
    name="key.list",
    id="listKeys",
    summary="List the keys of the store, without the keys themselves",
    function=keys.list_keys,
    request=NoParams,
    answer=KeysAnswer,
    method="GET",
    path="/api/keys",
    scope=Scope.ADMIN,
)

KEY_REVOKE: Final = Operation(
    name="key.revoke",
    id="revokeKey",
    summary="Revoke a key: every process rejects it within seconds",
    function=keys.revoke,
    request=KeyByName,
    answer=Message,
    method="DELETE",
    path="/api/keys/{name}",
    scope=Scope.ADMIN,
)

SESSION_LIST: Final = Operation(
    name="session.list",
    id="listSessions",
    summary="Sessions of the dashboard; each ends as a key of its name does",
    function=settings.list_sessions,
    request=NoParams,
    answer=SessionsAnswer,
    method="GET",
    path="/api/sessions",
    scope=Scope.ADMIN,
)

SETTINGS_SHOW: Final = Operation(
    name="settings.show",
    id="getSettings",
    summary="The settings of the process that answers, and where each was set",
    function=settings.show_settings,
    request=NoParams,
    answer=SettingsAnswer,
    method="GET",
    path="/api/settings",
    scope=Scope.ADMIN,
)

SECRETS_ROTATE: Final = Operation(
    name="secrets.rotate",
    id="rotateSecrets",
    summary="Encrypt a part of what is stored with the current key",
    function=secrets.reencrypt,
    request=Reencrypt,
    answer=ReencryptedAnswer,
    method="POST",
    path="/api/secrets/rotate",
    body="part",
    body_required=False,
    scope=Scope.ADMIN,
)

AUDIT_LIST: Final = Operation(
    name="audit.list",
    id="listAudit",
    summary="Who changed what, newest first",
    function=audit.list_audit,
    request=ListAudit,
    answer=AuditListAnswer,
    method="GET",
    path="/api/audit",
    scope=Scope.ADMIN,
)

OPERATIONS: Final[tuple[Operation[Any, Any], ...]] = (
    KEY_CREATE,
    KEY_LIST,
    KEY_REVOKE,
    SESSION_LIST,
    SETTINGS_SHOW,
    SECRETS_ROTATE,
    AUDIT_LIST,
)
