"""What one execution environment of a sender keeps: connections, clients, and what is remembered
from one invocation to the next."""

from concurrent.futures import ThreadPoolExecutor
from uuid import UUID

from functions.providers.choice import DECLARATIONS, Equipment, Providers
from functions.providers.egress import PublicOnly, networks_of
from functions.providers.transport import Transport
from functions.runtime.credentials import Vault
from functions.sender.deliver import CONCURRENT_CALLS, Sender
from functions.sender.learning import Tally
from functions.sender.links import unsubscribe_links
from functions.sender.settings import Settings
from functions.sender.signing import SigningSecrets
from functions.sender.words import Documents
from functions.store.channel import Channels
from functions.store.connection import Database, connector


class Environment:
    """Made once per process; ``sender`` is what one invocation works with."""

    def __init__(self, settings: Settings, vault: Vault) -> None:
        self._settings = settings
        self._database = Database(
            connector(lambda: vault.database_login(settings), application_name="sendoff-sender")
        )
        self._channels = Channels(self._database)
        signing = SigningSecrets(
            self._database, lambda: vault.webhook_secrets(settings.webhook_secret_arn)
        )
        self._providers = Providers(
            Equipment(
                transport=Transport(connections=CONCURRENT_CALLS),
                gateway_credentials=lambda: vault.gateway_credentials(settings.gateway_secret_arn),
                webhook_secrets=signing.of,
                push_account=lambda: vault.secret(settings.push_secret_arn),
                local_origin=settings.local_webhook_origin,
                guard=PublicOnly(own_networks=networks_of(settings.own_networks)),
            )
        )
        self._links = unsubscribe_links(
            settings.public_url, lambda: vault.secret(settings.hash_secret_arn)["current"].encode()
        )
        self._threads = ThreadPoolExecutor(CONCURRENT_CALLS, thread_name_prefix="call")
        self._finished: list[UUID] = []
        self._tally = Tally()
        self._documents = Documents()

    def sender(self, ends_at: float) -> Sender:
        """Return a sender whose invocation ends at ``ends_at`` (``time.monotonic``)."""
        channel = self._channels.get(self._settings.channel)
        return Sender(
            database=self._database,
            provider_of=lambda name, url: self._providers.get(name, url=url),
            channel=channel,
            declarations=DECLARATIONS,
            threads=self._threads,
            ends_at=ends_at,
            unsubscribe_url=self._links,
            finished=self._finished,
            tally=self._tally,
            documents=self._documents,
        )
