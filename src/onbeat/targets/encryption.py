"""AES-256-GCM with a derived key for each text (`cryptography`; NIST SP 800-38D, RFC 5869)."""

import os
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Sequence
from typing import Final

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from onbeat.model.encrypted import encrypted_text, missing_key, read_encrypted
from onbeat.model.errors import Undecryptable
from onbeat.rules.encryption import EncryptionKey

SALT_BYTES: Final = 24
KEY_BYTES: Final = 32
NONCE_BYTES: Final = 12
PURPOSE: Final = b"onbeat encryption at rest v1"


class AesGcmCipher:
    """Implements `onbeat.ports.encryption.Cipher`; the first key encrypts.

    Random GCM nonces may repeat after 2^32 texts under one key. So key and nonce of each text are
    derived (HKDF) from the configured key and 192 random bits, which are stored with the text.
    """

    def __init__(self, keys: Sequence[EncryptionKey]) -> None:
        self._keys = {key.id: key.secret for key in keys}
        self._first = keys[0]

    @property
    def key_id(self) -> str | None:
        return self._first.id

    def encrypt(self, text: str, bound_to: str) -> str:
        salt = os.urandom(SALT_BYTES)
        key, nonce = derive_key(self._first.secret, salt)
        sealed = AESGCM(key).encrypt(nonce, text.encode(), bound_to.encode())
        content = urlsafe_b64encode(salt + sealed).rstrip(b"=").decode()
        return encrypted_text(self._first.id, content)

    def decrypt(self, text: str, bound_to: str) -> str:
        key_id, content = read_encrypted(text)
        if key_id not in self._keys:
            raise missing_key(text)
        try:
            packed = urlsafe_b64decode(content + "=" * (-len(content) % 4))
            key, nonce = derive_key(self._keys[key_id], packed[:SALT_BYTES])
            clear = AESGCM(key).decrypt(nonce, packed[SALT_BYTES:], bound_to.encode())
        except (InvalidTag, ValueError):
            raise Undecryptable(
                f"it was encrypted with another key than the {key_id!r} of `secrets.keys` here, "
                "for another place, or was changed since"
            ) from None
        return clear.decode()


def derive_key(secret: bytes, salt: bytes) -> tuple[bytes, bytes]:
    """The key and the nonce of one text."""
    made = HKDF(SHA256(), KEY_BYTES + NONCE_BYTES, salt, PURPOSE).derive(secret)
    return made[:KEY_BYTES], made[KEY_BYTES:]
