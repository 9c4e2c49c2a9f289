"""The cipher: AES-256-GCM under keys that can be replaced."""

import os
from base64 import b64encode
from typing import Any

import pytest

from onbeat.model.encrypted import is_encrypted, read_encrypted
from onbeat.model.errors import Undecryptable
from onbeat.ports.encryption import NO_CIPHER
from onbeat.rules.encryption import KEY_BYTES, read_key
from onbeat.targets.encryption import AesGcmCipher


def a_key(id: str = "k1") -> Any:
    return read_key(f"{id}:{b64encode(os.urandom(KEY_BYTES)).decode()}")


KEY = a_key()
CIPHER = AesGcmCipher([KEY])


@pytest.mark.parametrize("text", ["", "a", "größe \U0001f511\0", "x" * 100_000])
def test_a_text_comes_back(text: str) -> None:
    made = CIPHER.encrypt(text, "field")
    assert is_encrypted(made)
    assert read_encrypted(made)[0] == "k1"
    assert CIPHER.decrypt(made, "field") == text


def test_the_same_text_never_looks_the_same() -> None:
    assert len({CIPHER.encrypt("a", "field") for _ in range(100)}) == 100


def test_it_decrypts_only_where_it_was_encrypted() -> None:
    made = CIPHER.encrypt("a", "field")
    with pytest.raises(Undecryptable, match="another place"):
        CIPHER.decrypt(made, "other field")


def test_every_changed_character_is_found_out() -> None:
    made = CIPHER.encrypt("secret", "field")
    start = len(made) - len(read_encrypted(made)[1])
    for place in range(start, len(made) - 1):  # the last may hold bits that mean nothing
        other = "A" if made[place] != "A" else "B"
        with pytest.raises(Undecryptable):
            CIPHER.decrypt(made[:place] + other + made[place + 1 :], "field")


@pytest.mark.parametrize("cut", [1, 20, 60])
def test_a_text_that_was_cut_is_found_out(cut: Any) -> None:
    made = CIPHER.encrypt("secret", "field")
    with pytest.raises(Undecryptable):
        CIPHER.decrypt(made[:-cut], "field")


def test_the_first_key_encrypts_and_all_decrypt() -> None:
    new = a_key("k2")
    both, alone = AesGcmCipher([new, KEY]), AesGcmCipher([new])
    old = CIPHER.encrypt("a", "field")
    assert both.key_id == "k2"
    assert both.decrypt(old, "field") == "a"
    assert alone.decrypt(both.encrypt("a", "field"), "field") == "a"
    with pytest.raises(Undecryptable, match=r"'k1' is not in `secrets\.keys`"):
        alone.decrypt(old, "field")


def test_another_key_of_the_same_id_is_found_out() -> None:
    with pytest.raises(Undecryptable, match="another key"):
        AesGcmCipher([a_key()]).decrypt(CIPHER.encrypt("a", "field"), "field")


def test_without_a_key_texts_stay_as_they_are() -> None:
    assert NO_CIPHER.encrypt("a", "field") == "a"
    with pytest.raises(Undecryptable, match=r"'k1' is not in `secrets\.keys`"):
        NO_CIPHER.decrypt(CIPHER.encrypt("a", "field"), "field")
