"""The program: all tasks and schedules of the back office."""

from dataclasses import dataclass

from backoffice.billing import Billing, add_billing
from backoffice.config import Config
from backoffice.database import Database
from backoffice.environment import BROKER
from backoffice.gateways.choice import Gateways
from backoffice.invoices import balance
from backoffice.mails import MailApi, add_mails
from backoffice.recordings import add_recordings
from backoffice.recordings.ari import AriConfig
from backoffice.settings import SettingsApi
from backoffice.upkeep import add_upkeep
from onbeat import Onbeat, Options


@dataclass(frozen=True)
class Program:
    """One `Onbeat` with what its tasks share, which `aclose` closes."""

    beat: Onbeat
    config: Config
    database: Database
    gateways: Gateways
    billing: Billing

    async def aclose(self) -> None:
        await self.beat.aclose()
        await self.gateways.close()
        await self.database.close()


def build(config: Config, beat: Onbeat | None = None) -> Program:
    """On the store of the configuration, or on a `beat` without tasks."""
    connections = {BROKER: config.queue_url} if config.queue_url else {}
    beat = beat or Onbeat(config.jobs_store, options=Options(connections=connections))
    database = Database(config.database, config.pool_max)
    gateways = Gateways(
        domain=config.domain, stripe_url=config.stripe_url, braintree_url=config.braintree_url
    )
    billing = add_billing(beat, config, database, gateways)
    if config.mail_url:
        add_mails(
            beat,
            database,
            MailApi(url=config.mail_url, key=config.mail_key),
            config.zone,
            balance,
        )
    if config.api_url:
        add_recordings(
            beat,
            database,
            SettingsApi(config.api_url, config.api_token),
            AriConfig(
                url=config.ari_url,
                username=config.ari_username,
                password=config.ari_password,
                servers=config.ari_servers,
            ),
        )
    add_upkeep(beat, database, config.zone)
    return Program(beat, config, database, gateways, billing)
