"""The port of encryption at rest."""

from typing import Final, Protocol

from onbeat.model.encrypted import missing_key


class Cipher(Protocol):
    """Encrypts with one key and decrypts with several, so that keys can be rotated at run time."""

    @property
    def key_id(self) -> str | None:
        """The id of the key that encrypts; None where there is no key."""
        ...

    def encrypt(self, text: str, bound_to: str) -> str:
        """The text encrypted; the same text gives a different result every time.

        `bound_to` is not stored; decrypting needs the same value. Without a key the text is
        returned unchanged.
        """
        ...

    def decrypt(self, text: str, bound_to: str) -> str:
        """Raises `Undecryptable` where the key is missing, or the text was altered."""
        ...


class NoCipher:
    """No key is configured: new texts stay in clear, encrypted texts cannot be read."""

    @property
    def key_id(self) -> str | None:
        return None

    def encrypt(self, text: str, bound_to: str) -> str:
        return text

    def decrypt(self, text: str, bound_to: str) -> str:
        raise missing_key(text)


NO_CIPHER: Final[Cipher] = NoCipher()
