"""Only who has the store's secret can make a token that counts."""

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from onbeat.model.ids import JobId, Token
from onbeat.model.limits import INTEGER_MAX
from onbeat.rules.fence import SECRET_BYTES, Fence

ids = st.uuids().map(str).map(JobId)
tokens = st.integers(0, INTEGER_MAX).map(Token)
fences = st.binary(min_size=SECRET_BYTES, max_size=SECRET_BYTES).map(Fence)


@given(fences, ids, tokens)
def test_a_sealed_token_opens_for_its_job(fence: Fence, id: JobId, token: Token) -> None:
    text = fence.seal(id, token)
    assert fence.open(id, text) == token
    assert len(text) <= 42
    assert text.isascii()


@given(fences, ids, tokens, tokens, ids)
def test_a_seal_fits_no_other_job_and_no_other_token(
    fence: Fence, id: JobId, token: Token, other_token: int, other_id: JobId
) -> None:
    number, _, seal = fence.seal(id, token).partition(".")
    assert other_id == id or fence.open(other_id, f"{number}.{seal}") is None
    assert other_token == token or fence.open(id, f"{other_token}.{seal}") is None


@given(fences, fences, ids, tokens)
def test_another_secret_makes_other_seals(
    fence: Fence, other: Fence, id: JobId, token: Token
) -> None:
    assert fence == other or other.open(id, fence.seal(id, token)) is None


@given(fences, ids, tokens, st.data())
def test_one_changed_character_is_a_forgery(
    fence: Fence, id: JobId, token: Token, data: Any
) -> None:
    text = fence.seal(id, token)
    place = data.draw(st.integers(0, len(text) - 1))
    character = data.draw(st.characters(codec="utf-8"))
    changed = text[:place] + character + text[place + 1 :]
    assert changed == text or fence.open(id, changed) is None


@given(fences, ids, st.text(max_size=100))
def test_any_other_text_opens_nothing(fence: Fence, id: JobId, text: str) -> None:
    assert fence.open(id, text) is None


def test_numbers_have_one_form_and_fit_into_a_store() -> None:
    fence, id = Fence(bytes(SECRET_BYTES)), JobId("0199a1b2-0000-7000-8000-000000000001")
    number, _, seal = fence.seal(id, Token(1)).partition(".")
    for text in (f"01.{seal}", f"+1.{seal}", f" 1.{seal}", f"\u0661.{seal}", f"1.{seal}="):
        assert fence.open(id, text) is None
    beyond = INTEGER_MAX + 1
    assert fence.open(id, f"{beyond}.{fence.digest(id, Token(beyond))}") is None
    assert number == "1"


def test_a_secret_is_not_shown() -> None:
    assert "geheim" not in repr(Fence(b"geheim" * 6))
