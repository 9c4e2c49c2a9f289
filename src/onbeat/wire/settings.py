"""Wire records of the settings of a process, and of the sessions of its dashboard."""

from datetime import datetime

from onbeat.model.access import ApiKey
from onbeat.model.principal import Scope
from onbeat.wire.answer import AnswerRecord


class SettingAnswer(AnswerRecord, frozen=True, kw_only=True):
    """A setting of the process that answers. `origin` is where it was set: `default`, a line of a
    file, a variable or a flag. Secrets are `***`.
    """

    key: str
    value: str
    origin: str


class SettingsAnswer(AnswerRecord, frozen=True, kw_only=True):
    """None of a process that was not started with settings."""

    settings: tuple[SettingAnswer, ...]


class SessionAnswer(AnswerRecord, frozen=True, kw_only=True):
    """A session of the dashboard. It ends as a key does, by its name."""

    name: str
    key: str
    scopes: tuple[Scope, ...]
    created_at: datetime | None
    used_at: datetime | None
    expires_at: datetime | None


class SessionsAnswer(AnswerRecord, frozen=True, kw_only=True):
    """Last used first."""

    sessions: tuple[SessionAnswer, ...]


def session_answer(session: ApiKey) -> SessionAnswer:
    return SessionAnswer(
        name=session.name,
        key=session.session_of or "",
        scopes=session.scopes,
        created_at=session.created_at,
        used_at=session.used_at,
        expires_at=session.expires_at,
    )
