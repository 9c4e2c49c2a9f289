"""Sessions of the dashboard: keys that a browser holds in a cookie, and that end by themselves."""

import hashlib
import hmac
from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta
from typing import Final

from onbeat.model.access import ApiKey
from onbeat.rules.access import digest_of

IDLE_MAX: Final = timedelta(minutes=30)
AGE_MAX: Final = timedelta(hours=12)
PER_KEY_MAX: Final = 20
IN_ALL_MAX: Final = 1_000
NAME_CHARS: Final = 16
"""Of the tag in the name of a session: it tells sessions apart, and opens none."""


def new_session(parent: ApiKey, token: str, now: datetime) -> ApiKey:
    """The key of a session that `parent` opens; it ends with `parent`, or before."""
    end = now + AGE_MAX
    return ApiKey(
        name=session_name(token, parent),
        digest=digest_of(token),
        scopes=parent.scopes,
        queues=parent.queues,
        created_at=now,
        expires_at=end if parent.expires_at is None else min(end, parent.expires_at),
        used_at=now,
        session_of=parent.name,
    )


def session_name(token: str, parent: ApiKey) -> str:
    """Another key that later has the name of `parent` does not inherit the session."""
    tag = hmac.new(token.encode(), parent.digest.encode(), hashlib.sha256)
    return f"session:{tag.hexdigest()[:NAME_CHARS]}"


def is_session(key: ApiKey) -> bool:
    return key.session_of is not None


def is_open(session: ApiKey, parents: Iterable[ApiKey], now: datetime) -> bool:
    """Whether it has neither ended, nor been idle for too long, nor lost its key."""
    seen = session.used_at or session.created_at
    return (
        any(parent.name == session.session_of for parent in parents)
        and (session.expires_at is None or now < session.expires_at)
        and seen is not None
        and now - seen <= IDLE_MAX
    )


def opener_of(
    session: ApiKey, token: str, parents: Iterable[ApiKey], now: datetime
) -> ApiKey | None:
    """The key that opened the session, whose present rights it has; None where it is over."""
    own = [
        parent
        for parent in parents
        if parent.name == session.session_of
        and session_name(token, parent) == session.name
        and (parent.expires_at is None or now < parent.expires_at)
    ]
    return own[0] if own and is_open(session, own, now) else None


def to_close(
    sessions: Sequence[ApiKey], parents: Sequence[ApiKey], opener: str, now: datetime
) -> list[str]:
    """The names of the sessions that go before `opener` may have another one.

    Those that have ended, and the ones unused for longest where there would be too many.
    """
    going = [session.name for session in sessions if not is_open(session, parents, now)]
    left = [session for session in sessions if session.name not in going]
    left.sort(key=lambda session: (session.used_at or now, session.name))
    own = [session for session in left if session.session_of == opener]
    going += [session.name for session in own[: max(0, len(own) + 1 - PER_KEY_MAX)]]
    others = [session for session in left if session.name not in going]
    return going + [session.name for session in others[: max(0, len(others) + 1 - IN_ALL_MAX)]]


def proof_of(token: str) -> str:
    """What a page of ours sends beside the cookie, and another site cannot know."""
    return hmac.new(token.encode(), b"onbeat-view", hashlib.sha256).hexdigest()


def proves(token: str, proof: str | None) -> bool:
    if proof is None:
        return False
    # Texts beyond ASCII cannot be compared in constant time, their bytes can.
    return hmac.compare_digest(proof_of(token).encode(), proof.encode())
