"""All outside services of one back office, on this machine."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final

import outside
from outside import AriServer, MailServer, SettingsServer, Storage, storage, tone
from stripe_server import StripeServer, stripe
from world import World

ONE_IN: Final = 20
"""So many workspaces have one that is old enough for a survey, and one recording."""


@dataclass(frozen=True)
class Neighbours:
    stripe: StripeServer
    mails: MailServer
    settings: SettingsServer
    ari: AriServer
    storage: Storage

    @property
    def variables(self) -> dict[str, str]:
        """Where they are, for the processes."""
        return {
            "STRIPE_URL": self.stripe.url,
            "MAIL_API_URL": f"{self.mails.url}/api/sendEmail",
            "MAIL_API_KEY": outside.MAIL_KEY,
            "API_URL": self.settings.url,
            "LINEBLOCS_KEY": outside.TOKEN,
            "ARI_URL": f"{self.ari.url}/ari",
            "ARI_USERNAME": outside.USER,
            "ARI_PASSWORD": outside.PASSWORD,
            "AWS_ENDPOINT_URL_S3": self.storage.url,
        }

    def provide(self, world: World, workspaces: int) -> None:
        """Recordings on their server, and workspaces that are due a survey."""
        world.run("UPDATE workspaces SET created_at = now() WHERE mod(id, ?) > 0", ONE_IN)
        ids = range(ONE_IN, workspaces + 1, ONE_IN)
        world.many(
            "INSERT INTO recordings (user_id, workspace_id, status, storage_id, created_at)"
            " VALUES (?, ?, 'completed', ?, now())",
            [(id, id, f"recording-{id}") for id in ids],
        )
        sound = tone((800, 0), (800, 9_000))
        self.ari.files |= {f"recording-{id}": sound for id in ids}


@contextmanager
def neighbours() -> Iterator[Neighbours]:
    with (
        stripe() as gateway,
        MailServer() as mails,
        SettingsServer() as settings,
        AriServer() as ari,
        storage() as bucket,
    ):
        yield Neighbours(gateway, mails, settings, ari, bucket)
