"""The log-ins of a broker: a stage for each listener with SASL, and what these share.

The credentials are those of the metadata that this broker has applied, like everything that its
handlers look at. Not here: a single log-in (`login`).

Source: SEC-20 to SEC-30.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Coroutine, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from barnabas_broker.config.oauthbearer_settings import OAuthBearerSettings
from barnabas_broker.config.parse import BrokerConfig
from barnabas_broker.env.clock import Clock
from barnabas_broker.env.disk import Disk
from barnabas_broker.env.randomness import secret_bytes
from barnabas_broker.metrics.sample import Sample
from barnabas_broker.network.login import FailureRates, LoginObserver, LoginStage
from barnabas_broker.network.login_metrics import LoginMetrics
from barnabas_broker.network.login_verdicts import LoadedCredentials, LoginVerdicts
from barnabas_broker.network.login_work import LoginWork
from barnabas_broker.security.credentials import (
    MECHANISM_NUMBERS,
    CredentialKey,
    ScramCredentials,
    StoredCredential,
)
from barnabas_protocol.errors import ErrorCode

if TYPE_CHECKING:
    from barnabas_broker.network.bearer_tokens import BearerTokens

LOOP_CREDENTIALS_MAX = 500
"""So many are taken over in some milliseconds; more are prepared in a thread."""
MECHANISM_NAMES = {number: name for name, number in MECHANISM_NUMBERS.items()}
_OWN_SECRET_BYTES = 32


class Logins:
    """All stages of one broker."""

    def __init__(
        self,
        config: BrokerConfig,
        *,
        clock: Clock,
        disk: Disk,
        spawn: Callable[[Coroutine[Any, Any, None]], None],
        of_brokers: ScramCredentials | None = None,
    ) -> None:
        """Make the stages that the settings demand.

        `of_brokers` are the credentials by which brokers log in on their listener: never those of
        the metadata (SEC-61). Raises: ConfigError.
        """
        self.metrics = LoginMetrics()
        self._work = LoginWork(disk.run)
        self._spawn = spawn
        self._disk = disk
        self.tokens = {
            listener: self._bearer_tokens(settings.tokens, config, disk, clock)
            for listener, settings in config.sasl.items()
            if settings.tokens is not None
        }
        self._credentials = ScramCredentials(secret_bytes(_OWN_SECRET_BYTES))
        self._loaded = LoadedCredentials(self._credentials, clock)
        rates = FailureRates(clock)
        self.stages = {
            listener: LoginStage(
                settings,
                LoginVerdicts(
                    settings,
                    self._loaded
                    if listener != config.inter_broker_listener_name or of_brokers is None
                    else LoadedCredentials(of_brokers, clock),
                    self._work,
                    self.tokens.get(listener),
                ),
                clock=clock,
                rates=rates,
                metrics=self.metrics,
                spawn=spawn,
                timeout_ms=config.barnabas_login_timeout_ms,
            )
            for listener, settings in config.sasl.items()
        }

        # Brokers have credentials of their own, which are not the metadata's.
        own = config.inter_broker_listener_name if of_brokers is not None else None
        self._stages_by_metadata = [
            stage for listener, stage in self.stages.items() if listener != own
        ]

    def _bearer_tokens(
        self, settings: OAuthBearerSettings, config: BrokerConfig, disk: Disk, clock: Clock
    ) -> BearerTokens:
        from barnabas_broker.network.bearer_token_factory import make_bearer_tokens

        return make_bearer_tokens(settings, config, self._work, disk, clock)

    async def start(self) -> None:
        """Fetch the keys of bearer tokens and keep them fresh. Raises: ConfigError."""
        for tokens in self.tokens.values():
            await tokens.start()
            self._spawn(tokens.keys.keep_fresh())

    async def close(self) -> None:
        """Close the connections to those who know about tokens."""
        for tokens in self.tokens.values():
            await tokens.close()

    def refuse_by(self, refuse: Callable[[Any, ErrorCode], None]) -> None:
        """Have requests that come amid a log-in refused by whoever knows their forms."""
        for stage in self.stages.values():
            stage.refuse = refuse

    def observe_by(self, observer: LoginObserver) -> None:
        """Tell somebody of all log-ins."""
        for stage in self.stages.values():
            stage.observer = observer

    async def update(
        self,
        credentials: Mapping[CredentialKey, StoredCredential],
        secret: bytes,
        changed: Collection[CredentialKey] | None,
    ) -> None:
        """Use the credentials of other metadata from now on; `changed` of them, or None for all.

        One call at a time.
        """
        if len(credentials if changed is None else changed) <= LOOP_CREDENTIALS_MAX:
            others = self._credentials.update(credentials, secret, changed)
        else:
            prepared = await self._disk.run(
                self._credentials.prepared, credentials, secret, changed
            )
            self._credentials.take_over(prepared)
            others = prepared.others
        self._loaded.wake()
        for stage in self._stages_by_metadata:
            users = stage.users
            for user, number in others if users else ():
                if user in users and _is_over(credentials.get((user, number))):
                    stage.end_connections(user, MECHANISM_NAMES[number])

    def samples(self) -> Iterator[Sample]:
        """The counters of log-ins."""
        yield from self.metrics.samples()
        yield Sample(
            "barnabas_logins_waiting",
            "gauge",
            "Log-ins that wait for a thread, to have a password hashed.",
            {},
            self._work.waiting_count,
        )
        for listener, tokens in self.tokens.items():
            labels = {"listener": listener}
            yield Sample(
                "barnabas_signing_keys",
                "gauge",
                "Keys that verify bearer tokens.",
                labels,
                len(tokens.keys.keys),
            )
            yield Sample(
                "barnabas_signing_key_fetch_failures_total",
                "counter",
                "Times that the keys of bearer tokens could not be fetched.",
                labels,
                tokens.keys.failed_count,
            )
            if tokens.reviews is not None:
                yield Sample(
                    "barnabas_token_review_failures_total",
                    "counter",
                    "Tokens that the API server did not review: their log-ins have failed.",
                    labels,
                    tokens.reviews.failed_count,
                )


def _is_over(credential: StoredCredential | None) -> bool:
    """Whether what was logged in with before this credential is not even good for a while."""
    return credential is None or credential.former is None
