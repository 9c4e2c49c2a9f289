"""A server's certificate for 127.0.0.1, and the authority that signed it."""

import ssl
from pathlib import Path

import trustme


def made(folder: Path) -> tuple[ssl.SSLContext, Path]:
    """What a server shows, and the file that a client must trust for it."""
    authority = trustme.CA()
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    authority.issue_cert("127.0.0.1").configure_cert(context)  # pyright: ignore[reportUnknownMemberType]  it knows two kinds
    trusted = folder / "authority.pem"
    authority.cert_pem.write_to_path(str(trusted))
    return context, trusted
