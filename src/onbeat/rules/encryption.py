"""Encryption at rest: which texts of a target are encrypted, what each is bound to, and the keys.

A text is encrypted in place, so stores, queues and copies need no change. Its associated data is
the field and the origin that the credential was given for: moved to another host, broker or task,
it does not decrypt.
"""

import binascii
import re
from base64 import b64decode
from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import Final

import msgspec

from onbeat.model.credentials import (
    has_encrypted_args,
    is_secret_name,
    is_secret_parameter,
    signing,
)
from onbeat.model.dead_letter import DeadLetter
from onbeat.model.encrypted import ENCRYPTED, is_encrypted, read_encrypted
from onbeat.model.errors import Invalid, Undecryptable
from onbeat.model.outcome import Snoozed
from onbeat.model.target import (
    NO_KWARGS,
    CommandTarget,
    HandlerTarget,
    HttpTarget,
    MessageTarget,
    NotifyTarget,
    Target,
)
from onbeat.rules.origins import origin_of

Transform = Callable[[str, str], str]
"""Transforms a text; the second argument is what the text is bound to."""

Change = Callable[[str, str, bool], str]
"""The same; the third argument is whether the field's name marks it as a credential."""

PUT_OFF: Final = timedelta(seconds=30)
"""Delay of a job that cannot be decrypted: time for the key, or for a worker that has it."""

KEY_BYTES: Final = 32
KEYS_MAX: Final = 16  # one is current; each rotation leaves an older one while it is needed
KEY_FORM: Final = re.compile(r"(?P<id>[A-Za-z0-9_-]{1,32}):(?P<key>[A-Za-z0-9+/_-]{43}=?)")
URL_SAFE: Final = str.maketrans("-_", "+/")  # both alphabets of base64 are accepted
HOW: Final = "make one with `onbeat secrets new-key`"


class EncryptionKey(msgspec.Struct, frozen=True):
    """An AES-256 key and its id, which encrypted texts name."""

    id: str
    secret: bytes

    def __repr__(self) -> str:
        return f"EncryptionKey({self.id!r}, …)"


class Arguments(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The encrypted part of a task's call."""

    args: msgspec.Raw
    kwargs: msgspec.Raw


ARGUMENTS: Final = msgspec.json.Decoder(Arguments)


def read_key(text: str) -> EncryptionKey:
    """A key as `ID:BASE64`. Raises `Invalid`, whose message omits the key."""
    form = KEY_FORM.fullmatch(text.strip())
    encoded = form["key"].translate(URL_SAFE) if form else ""
    try:
        secret = b64decode(f"{encoded:=<44}")
    except binascii.Error:
        secret = b""
    if form is None or len(secret) != KEY_BYTES:
        raise Invalid(f"an encryption key is ID:KEY, with {KEY_BYTES} bytes in base64; {HOW}")
    return EncryptionKey(form["id"], secret)


def read_keys(texts: Sequence[str]) -> tuple[EncryptionKey, ...]:
    """The keys; the first one encrypts. Raises `Invalid`."""
    if len(texts) > KEYS_MAX:
        raise Invalid(f"there can be at most {KEYS_MAX} encryption keys")
    keys = tuple(read_key(text) for text in texts)
    ids = [key.id for key in keys]
    for id in ids:
        if ids.count(id) > 1:
            raise Invalid(f"two encryption keys have the id {id!r}; give each its own")
    return keys


def encrypt_target(target: Target, encrypt: Transform) -> Target:
    """The target with each credential encrypted, and the arguments if the task asks for it.

    Encrypted texts stay as they are.
    """
    if isinstance(target, HandlerTarget):
        return encrypt_arguments(target, encrypt) if target.encrypted else target
    return change_credentials(target, encryption_by(encrypt))


def decrypt_target(target: Target, decrypt: Transform) -> Target:
    """The decrypted target. Raises what `decrypt` raises."""
    if isinstance(target, HandlerTarget):
        return decrypt_arguments(target, decrypt)
    return change_credentials(target, decryption_by(decrypt))


def encryption_by(encrypt: Transform) -> Change:
    """Encrypts credentials that are not encrypted yet."""

    def change(text: str, bound_to: str, is_secret: bool) -> str:  # noqa: FBT001  see `Change`
        if not is_secret or not text or is_encrypted(text):
            return text
        return encrypt(text, bound_to)

    return change


def decryption_by(decrypt: Transform) -> Change:
    """Decrypts encrypted texts, whatever the field's name."""

    def change(text: str, bound_to: str, _is_secret: bool) -> str:  # noqa: FBT001  see `Change`
        return decrypt(text, bound_to) if is_encrypted(text) else text

    return change


def needs_decryption(target: Target) -> bool:
    """Whether any part of the target is encrypted."""
    match target:
        case HandlerTarget():
            return has_encrypted_args(target)
        case MessageTarget():
            return ENCRYPTED in "\n".join(target.headers.values())
        case HttpTarget():
            return ENCRYPTED in "\n".join((target.url, *target.headers.values(), *signing(target)))
        case NotifyTarget():
            return False
        case CommandTarget():
            return ENCRYPTED in "\n".join(target.env.values())


def key_ids_of(target: Target) -> frozenset[str]:
    """The ids of the keys that the target's encrypted texts name."""
    result: set[str] = set()

    def note(text: str, _bound_to: str) -> str:
        result.add(read_encrypted(text)[0])
        return text

    if isinstance(target, HandlerTarget):
        if has_encrypted_args(target):
            note(text_of_args(target), "")
    else:
        decrypt_target(target, note)
    return frozenset(result)


def has_plain_credentials(target: Target) -> bool:
    """Whether a credential of the target is not encrypted."""
    result: list[str] = []

    def note(text: str, _bound_to: str) -> str:
        result.append(text)
        return text

    encrypt_target(target, note)
    return bool(result)


def change_credentials(
    target: HttpTarget | MessageTarget | NotifyTarget | CommandTarget, change: Change
) -> Target:
    """The target with `change` applied to each header, variable, query parameter and secret."""
    if isinstance(target, NotifyTarget):
        return target  # its channel keeps the credentials
    if isinstance(target, MessageTarget):
        headers = change_headers(target.headers, f"message\n{target.to}", change)
        return msgspec.structs.replace(target, headers=headers)
    if isinstance(target, CommandTarget):
        env = change_headers(target.env, f"command\n{target.program}", change)
        return msgspec.structs.replace(target, env=env)
    scheme, host, port = origin_of(target.url)
    origin = f"http\n{scheme}://{host}:{port}"
    return msgspec.structs.replace(
        target,
        url=change_query(target.url, origin, change),
        headers=change_headers(target.headers, origin, change),
        secret=change_secret(target, origin, change),
    )


def change_headers(headers: dict[str, str], origin: str, change: Change) -> dict[str, str]:
    return {
        name: change(value, f"{origin}\nheader\n{name.lower()}", is_secret_name(name))
        for name, value in headers.items()
    }


def change_query(url: str, origin: str, change: Change) -> str:
    path, mark, query = url.partition("?")
    pairs: list[str] = []
    for pair in query.split("&"):
        name, equals, value = pair.partition("=")
        bound_to = f"{origin}\nquery\n{name}"
        pairs.append(name + equals + change(value, bound_to, is_secret_parameter(name)))
    return path + mark + "&".join(pairs)


def change_secret(target: HttpTarget, origin: str, change: Change) -> str | tuple[str, ...] | None:
    changed = tuple(change(text, f"{origin}\nsecret", True) for text in signing(target))
    return changed if isinstance(target.secret, tuple) else next(iter(changed), None)


def encrypt_arguments(target: HandlerTarget, encrypt: Transform) -> HandlerTarget:
    if has_encrypted_args(target):
        return HandlerTarget(target.task, target.args)
    text = msgspec.json.encode(Arguments(target.args, target.kwargs)).decode()
    packed = msgspec.json.encode(encrypt(text, f"task\n{target.task}"))
    return HandlerTarget(target.task, msgspec.Raw(packed), NO_KWARGS)


def decrypt_arguments(target: HandlerTarget, decrypt: Transform) -> HandlerTarget:
    if not has_encrypted_args(target):
        return target
    text = decrypt(text_of_args(target), f"task\n{target.task}")
    try:
        arguments = ARGUMENTS.decode(text)
    except msgspec.MsgspecError:
        raise Undecryptable("the decrypted text is not the arguments of a task") from None
    return HandlerTarget(
        target.task, copy_raw(arguments.args), copy_raw(arguments.kwargs), encrypted=True
    )


def text_of_args(target: HandlerTarget) -> str:
    return msgspec.json.decode(target.args, type=str)


def copy_raw(raw: msgspec.Raw) -> msgspec.Raw:
    """A copy, which does not keep the text that it was found in alive."""
    return msgspec.Raw(bytes(raw))


def encrypt_letter(dead_letter: DeadLetter, encrypt: Transform) -> DeadLetter:
    """The dead letter with its body and each credential header encrypted."""
    bound_to = letter_of(dead_letter)

    # A header that only looks encrypted came from outside, and is encrypted like any other.
    def change(text: str, bound_to: str, is_secret: bool) -> str:  # noqa: FBT001  see `Change`
        return encrypt(text, bound_to) if is_secret and text else text

    body = encrypt(dead_letter.body.decode("latin-1"), f"{bound_to}\nbody").encode()
    headers = change_headers(dead_letter.headers, bound_to, change)
    return msgspec.structs.replace(dead_letter, body=body, headers=headers)


def decrypt_letter(dead_letter: DeadLetter, decrypt: Transform) -> DeadLetter:
    """The decrypted dead letter. Raises what `decrypt` raises."""
    bound_to = letter_of(dead_letter)
    if not dead_letter.body.startswith(ENCRYPTED.encode()):
        return dead_letter
    body = decrypt(dead_letter.body.decode("latin-1"), f"{bound_to}\nbody").encode("latin-1")
    headers = change_headers(dead_letter.headers, bound_to, decryption_by(decrypt))
    return msgspec.structs.replace(dead_letter, body=body, headers=headers)


def letter_of(dead_letter: DeadLetter) -> str:
    """What the texts of a dead letter are bound to."""
    return f"dead letter\n{dead_letter.id}"


def put_off(error: Undecryptable) -> Snoozed:
    """The outcome of an attempt that could not be decrypted; it costs no attempt."""
    return Snoozed(PUT_OFF, f"cannot be decrypted: {error}")
