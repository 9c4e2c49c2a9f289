from datetime import UTC, datetime, timedelta

import pytest
from msgspec.structs import replace

from onbeat.model.access import ApiKey
from onbeat.model.principal import Scope
from onbeat.rules.sessions import (
    AGE_MAX,
    IDLE_MAX,
    IN_ALL_MAX,
    PER_KEY_MAX,
    is_open,
    is_session,
    new_session,
    opener_of,
    proof_of,
    proves,
    to_close,
)

NOW = datetime(2026, 11, 23, 3, 12, tzinfo=UTC)
OPS = ApiKey(name="ops", digest="00", scopes=(Scope.OPERATE,), queues=("mail",))
LOOK = ApiKey(name="look", digest="11", scopes=(Scope.READ,))


def test_a_session_has_the_rights_of_its_key_and_acts_in_its_name() -> None:
    session = new_session(OPS, "token", NOW)
    assert is_session(session)
    assert not is_session(OPS)
    assert opener_of(session, "token", [LOOK, OPS], NOW) is OPS
    assert opener_of(session, "other", [LOOK, OPS], NOW) is None
    assert "token" not in str(session)


def test_a_later_key_of_the_same_name_does_not_inherit_the_session() -> None:
    session = new_session(OPS, "token", NOW)
    assert opener_of(session, "token", [replace(OPS, digest="22")], NOW) is None
    fewer = replace(OPS, scopes=(Scope.READ,))
    assert opener_of(session, "token", [fewer], NOW) is fewer


@pytest.mark.parametrize(
    ("passed", "used", "open_"),
    [
        (timedelta(), timedelta(), True),
        (IDLE_MAX, timedelta(), True),
        (IDLE_MAX + timedelta(seconds=1), timedelta(), False),
        (AGE_MAX - timedelta(seconds=1), AGE_MAX - timedelta(minutes=2), True),
        (AGE_MAX, AGE_MAX - timedelta(minutes=2), False),
    ],
)
def test_a_session_ends_by_age_and_without_use(
    passed: timedelta, used: timedelta, open_: bool
) -> None:
    session = replace(new_session(OPS, "token", NOW), used_at=NOW + used)
    assert is_open(session, [OPS], NOW + passed) is open_


def test_a_session_ends_with_its_key() -> None:
    session = new_session(OPS, "token", NOW)
    assert not is_open(session, [LOOK], NOW)
    dying = replace(OPS, expires_at=NOW + timedelta(minutes=1))
    assert not is_open(new_session(dying, "token", NOW), [dying], NOW + timedelta(minutes=1))


def test_a_key_has_so_many_sessions_and_the_unused_go_first() -> None:
    sessions = [
        replace(new_session(OPS, str(n), NOW), used_at=NOW - timedelta(seconds=n))
        for n in range(PER_KEY_MAX)
    ]
    assert to_close(sessions[1:], [OPS], "ops", NOW) == []
    assert to_close(sessions, [OPS, LOOK], "look", NOW) == []
    assert to_close(sessions, [OPS], "ops", NOW) == [sessions[-1].name]
    late = NOW + IDLE_MAX + timedelta(seconds=1)
    assert len(to_close(sessions, [OPS], "ops", late)) == PER_KEY_MAX


def test_all_keys_together_have_so_many() -> None:
    keys = [replace(LOOK, name=f"k{n}") for n in range(IN_ALL_MAX)]
    sessions = [new_session(key, key.name, NOW) for key in keys]
    assert len(to_close(sessions, keys, "k1", NOW)) == 1
    assert to_close(sessions[1:], keys, "k1", NOW) == []


def test_only_who_knows_the_token_can_prove_it() -> None:
    assert proves("token", proof_of("token"))
    assert not proves("token", proof_of("other"))
    assert not proves("token", None)
    assert "token" not in proof_of("token")
