"""The log-ins of a broker: a stage for each listener with SASL, and what these share.

The credentials are those of the metadata that this broker has applied, like everything that its
handlers look at. Not here: a single log-in (`login`).

Source: SEC-20 to SEC-30.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Coroutine, Iterable, Iterator, Mapping
from typing import Any

from barnabas_broker.config.parse import BrokerConfig
from barnabas_broker.env.clock import Clock
from barnabas_broker.env.randomness import secret_bytes
from barnabas_broker.metrics.sample import Sample
from barnabas_broker.network.login import FailureRates, LoginObserver, LoginStage
from barnabas_broker.network.login_metrics import LoginMetrics
from barnabas_broker.network.login_verdicts import LoadedCredentials, LoginVerdicts
from barnabas_broker.network.login_work import LoginWork
from barnabas_broker.security.credentials import (
    CredentialKey,
    ScramCredentials,
    StoredCredential,
)
from barnabas_protocol.errors import ErrorCode

_OWN_SECRET_BYTES = 32


class Logins:
    """All stages of one broker."""

    def __init__(
        self,
        config: BrokerConfig,
        *,
        clock: Clock,
        run: Callable[..., Awaitable[Any]],
        spawn: Callable[[Coroutine[Any, Any, None]], None],
        observer: LoginObserver | None = None,
    ) -> None:
        """Make the stages that the settings demand; `run` calls functions in threads."""
        self.metrics = LoginMetrics()
        self._work = LoginWork(run)
        self._credentials = ScramCredentials(secret_bytes(_OWN_SECRET_BYTES))
        self._loaded = LoadedCredentials(self._credentials, clock)
        rates = FailureRates(clock)
        self.stages = {
            listener: LoginStage(
                settings,
                LoginVerdicts(settings, self._loaded, self._work),
                clock=clock,
                rates=rates,
                metrics=self.metrics,
                spawn=spawn,
                observer=observer,
            )
            for listener, settings in config.sasl.items()
        }

    def refuse_by(self, refuse: Callable[[Any, ErrorCode], None]) -> None:
        """Have requests that come amid a log-in refused by whoever knows their forms."""
        for stage in self.stages.values():
            stage.refuse = refuse

    def update(
        self,
        credentials: Mapping[CredentialKey, StoredCredential],
        secret: bytes,
        changed: Iterable[CredentialKey] | None,
    ) -> None:
        """Use the credentials of other metadata from now on; `changed` of them, or None for all."""
        self._credentials.update(credentials, secret, changed)
        self._loaded.wake()

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
