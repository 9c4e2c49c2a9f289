"""Which texts of a target are encrypted, what each is bound to, and how keys are read."""

import base64

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from onbeat.model.credentials import HIDDEN_ARGS, masked
from onbeat.model.encrypted import ENCRYPTED, encrypted_text, read_encrypted
from onbeat.model.errors import Invalid, Undecryptable
from onbeat.model.target import HandlerTarget, HttpTarget, MessageTarget
from onbeat.rules.encryption import (
    KEY_BYTES,
    KEYS_MAX,
    decrypt_target,
    encrypt_target,
    has_plain_credentials,
    key_ids_of,
    needs_decryption,
    read_key,
    read_keys,
)
from onbeat.rules.urls import checked_headers, checked_url
from onbeat.wire.targets import message_headers

URL = "https://example.org:8443/in?to=7&token=QUERY&sig=%2Bx"
HTTP = HttpTarget(
    URL, headers={"Authorization": "Bearer H", "X-Plain": "seen"}, secret=("whsec_a", "whsec_b")
)
MESSAGE = MessageTarget("bus", "q", msgspec.Raw(b"1"), {"Token": "M", "plain": "seen"})
TASK = HandlerTarget("pay", msgspec.Raw(b"[1]"), msgspec.Raw(b'{"a":"b"}'), encrypted=True)
TEXT = st.text(st.characters(codec="ascii", categories=["L", "N"]), min_size=1, max_size=20)
NAMES = st.sampled_from(["Authorization", "X-Api-Key", "Cookie", "X-Plain", "token", "Accept"])


class Noted:
    """Stands for a cipher: what is encrypted names what it is bound to, and can be read."""

    def __init__(self, key_id: str = "k") -> None:
        self.key_id = key_id
        self.bound_to: list[str] = []

    def encrypt(self, text: str, bound_to: str) -> str:
        self.bound_to.append(bound_to)
        packed = base64.urlsafe_b64encode(f"{bound_to}\0{text}".encode()).rstrip(b"=").decode()
        return encrypted_text(self.key_id, packed)

    def decrypt(self, text: str, bound_to: str) -> str:
        _, packed = read_encrypted(text)
        made_for, _, clear = (
            base64.urlsafe_b64decode(packed + "=" * (-len(packed) % 4)).decode().partition("\0")
        )
        if made_for != bound_to:
            raise Undecryptable
        return clear


def test_each_credential_is_bound_to_its_field_and_its_origin():
    cipher = Noted()
    encrypt_target(HTTP, cipher.encrypt)
    encrypt_target(MESSAGE, cipher.encrypt)
    encrypt_target(TASK, cipher.encrypt)
    origin = "http\nhttps://example.org:8443"
    assert sorted(cipher.bound_to) == sorted(
        [
            f"{origin}\nquery\ntoken",
            f"{origin}\nquery\nsig",
            f"{origin}\nheader\nauthorization",
            f"{origin}\nsecret",
            f"{origin}\nsecret",
            "message\nbus\nheader\ntoken",
            "task\npay",
        ]
    )


@pytest.mark.parametrize("target", [HTTP, MESSAGE, TASK], ids=["http", "message", "task"])
def test_what_is_encrypted_is_found_and_comes_back(target):
    cipher = Noted()
    made = encrypt_target(target, cipher.encrypt)
    assert not needs_decryption(target)
    assert needs_decryption(made)
    assert key_ids_of(made) == {"k"}
    assert not has_plain_credentials(made)
    assert decrypt_target(made, cipher.decrypt) == target
    assert decrypt_target(target, cipher.decrypt) == target


def test_other_headers_and_parameters_stay_readable():
    made = encrypt_target(HTTP, Noted().encrypt)
    assert made.headers["X-Plain"] == "seen"
    assert made.url.startswith("https://example.org:8443/in?to=7&token=" + ENCRYPTED)


def test_what_is_encrypted_is_not_encrypted_twice():
    once = encrypt_target(HTTP, Noted("old").encrypt)
    assert encrypt_target(once, Noted("new").encrypt) == once
    task = encrypt_target(TASK, Noted().encrypt)
    again = msgspec.structs.replace(task, encrypted=True)
    assert encrypt_target(again, Noted("new").encrypt) == task


def test_a_task_that_does_not_ask_for_it_stays_as_it_is():
    plain = HandlerTarget("pay", msgspec.Raw(b"[1]"))
    assert encrypt_target(plain, Noted().encrypt) is plain
    assert not has_plain_credentials(plain)


def test_moved_to_another_origin_it_does_not_decrypt():
    cipher = Noted()
    made = encrypt_target(HTTP, cipher.encrypt)
    elsewhere = msgspec.structs.replace(made, url=made.url.replace("8443", "8444"))
    with pytest.raises(Undecryptable):
        decrypt_target(elsewhere, cipher.decrypt)
    task = encrypt_target(TASK, cipher.encrypt)
    with pytest.raises(Undecryptable):
        decrypt_target(HandlerTarget("refund", task.args), cipher.decrypt)


def test_what_decrypts_to_no_arguments_is_told():
    made = encrypt_target(TASK, Noted().encrypt)
    with pytest.raises(Undecryptable, match="not the arguments of a task"):
        decrypt_target(made, lambda _text, _bound_to: "[1]")


def test_encrypted_arguments_are_shown_as_hidden():
    shown = masked(encrypt_target(TASK, Noted().encrypt))
    assert shown == HandlerTarget("pay", HIDDEN_ARGS, encrypted=True)


@given(
    headers=st.dictionaries(NAMES, TEXT, max_size=4),
    query=st.lists(st.tuples(NAMES, TEXT), max_size=5),
    secret=st.one_of(st.none(), TEXT, st.tuples(TEXT, TEXT)),
)
def test_every_target_comes_back(headers, query, secret):
    url = "http://h/p?" + "&".join(f"{name}={value}" for name, value in query)
    target = HttpTarget(url, headers=headers, secret=secret)
    cipher = Noted()
    made = encrypt_target(target, cipher.encrypt)
    assert decrypt_target(made, cipher.decrypt) == target
    assert needs_decryption(made) == has_plain_credentials(target)


def key(id="k1", size=KEY_BYTES, alter=b"+/"):
    return f"{id}:{base64.b64encode(bytes(range(200, 200 + size)), alter).decode()}"


@pytest.mark.parametrize("text", [key(), key(alter=b"-_"), key().rstrip("="), f" {key()}\n"])
def test_a_key_is_32_bytes_in_either_alphabet(text):
    assert read_key(text).secret == bytes(range(200, 232))
    assert "200" not in repr(read_key(text))


@pytest.mark.parametrize(
    "text",
    [
        "",
        "k1",
        key(size=31),
        key(size=33),
        key(""),
        key("a b"),
        key("i" * 33),
        "k1:" + "!" * 43,
        key() + "=",
    ],
)
def test_another_key_is_refused_and_not_repeated(text):
    with pytest.raises(Invalid, match="onbeat secrets new-key") as refused:
        read_key(text)
    assert len(text) < 20 or text not in str(refused.value)


def test_keys_have_ids_of_their_own_and_are_bounded():
    assert [read_key.id for read_key in read_keys([key("b"), key("a")])] == ["b", "a"]
    with pytest.raises(Invalid, match="'a'"):
        read_keys([key("a"), key("a")])
    assert len(read_keys([key(f"k{n}") for n in range(KEYS_MAX)])) == KEYS_MAX
    with pytest.raises(Invalid, match=str(KEYS_MAX)):
        read_keys([key(f"k{n}") for n in range(KEYS_MAX + 1)])


def test_nobody_can_send_what_looks_encrypted():
    text = encrypted_text("k", "abc")
    for refuse in (
        lambda: checked_url(f"https://h/?token={text}"),
        lambda: checked_headers({"Authorization": f"Bearer {text}"}),
        lambda: message_headers({"token": text}, "headers"),
    ):
        with pytest.raises(Invalid, match="encrypted"):
            refuse()


@pytest.mark.parametrize("text", [ENCRYPTED, ENCRYPTED + "k", ENCRYPTED + "k.", ENCRYPTED + "k.ä"])
def test_a_broken_form_is_told(text):
    with pytest.raises(Undecryptable, match="form"):
        read_encrypted(text)
