"""How this process was set up, and who is logged in."""

from onbeat.operations.context import OperationContext
from onbeat.rules.sessions import is_session
from onbeat.wire.requests import NoParams
from onbeat.wire.settings import SessionsAnswer, SettingsAnswer, session_answer


async def show_settings(context: OperationContext, _request: NoParams) -> SettingsAnswer:
    """Those of the process that answers; others of a fleet may differ."""
    return SettingsAnswer(settings=context.settings)


async def list_sessions(context: OperationContext, _request: NoParams) -> SessionsAnswer:
    """Also those that are over and not yet deleted."""
    sessions = [key for key in await context.store.keys() if is_session(key)]
    sessions.sort(key=lambda one: (one.used_at is not None, one.used_at, one.name), reverse=True)
    return SessionsAnswer(sessions=tuple(map(session_answer, sessions)))
