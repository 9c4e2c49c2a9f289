"""Texts from outside in a form that every store and every log takes."""


def storable_text(text: str) -> str:
    """The text without NUL and lone surrogates, which not every store accepts.

    Both come from outside: a message quotes the bytes of a device, a file has an odd name.
    """
    return text.replace("\x00", "\ufffd").encode("utf-8", "replace").decode()
