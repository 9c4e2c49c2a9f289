"""Channels: the ways to people that the configuration names."""

import msgspec

from onbeat.model.target import NotifyTarget


class Secret(msgspec.Struct, frozen=True):
    """Where a secret text is kept: in a file, in a variable, or in the configuration itself."""

    file: str | None = None
    variable: str | None = None
    text: str | None = None

    def __repr__(self) -> str:
        return f"Secret(file={self.file!r}, variable={self.variable!r})"


class MailServer(msgspec.Struct, frozen=True, kw_only=True):
    """An SMTP server. `sender` is an address, with or without a name.

    The connection is encrypted from its start with `tls`, by STARTTLS with `starttls`. `ca_file`
    replaces the system's certificate authorities.
    """

    host: str
    port: int
    sender: str
    tls: bool = False
    starttls: bool = True
    user: str | None = None
    password: Secret | None = None
    ca_file: str | None = None


class ChatHook(msgspec.Struct, frozen=True):
    """A place in a chat; its URL is the secret. `kind` is `slack`, `teams` or `discord`."""

    kind: str
    url: Secret


class WebhookEndpoint(msgspec.Struct, frozen=True):
    """An endpoint that takes notices as JSON, signed with the secret if there is one."""

    url: str
    secret: Secret | None = None


class AppriseService(msgspec.Struct, frozen=True):
    """A service by its Apprise URL, which is secret; `{to}` in it stands for the recipient."""

    url: Secret


Channel = MailServer | ChatHook | WebhookEndpoint | AppriseService


class Template(msgspec.Struct, frozen=True, kw_only=True):
    """A template of the configuration: the parts of a notice."""

    title: str | None = None
    text: str | None = None
    html: str | None = None


NO_TEMPLATE = Template()


def written_parts(target: NotifyTarget, template: Template = NO_TEMPLATE) -> Template:
    """The parts of a notice as written: those of its template, and a title of its own first."""
    return Template(
        title=target.title if target.title is not None else template.title,
        text=target.text if target.text is not None else template.text,
        html=target.html if target.html is not None else template.html,
    )
