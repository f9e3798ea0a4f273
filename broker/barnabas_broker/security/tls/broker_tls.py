"""The TLS of all listeners of a broker: loaded at the start, looked at again every five seconds.

Files are read and contexts are made in a thread; the loop swaps one reference. What an operator of
clusters has to see is in metrics and `/status`: when certificates end, which renewal was refused
and why, and which anchors are in use.

Source: SEC-5. Kafka 4.4 looks at files only when AlterConfigs names them; so does this, besides.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final

from barnabas_broker.config.definitions import ConfigError
from barnabas_broker.config.listeners import Endpoint
from barnabas_broker.config.parse import BrokerConfig
from barnabas_broker.config.tls_settings import tls_settings
from barnabas_broker.env.clock import Clock
from barnabas_broker.metrics.sample import Sample

if TYPE_CHECKING:
    from barnabas_broker.security.tls.listener_tls import ListenerTls, LoadedTls

_log = logging.getLogger(__name__)

POLL_SECONDS: Final = 5.0
"""Kubernetes itself takes a minute or two to bring a Secret into a pod."""

Run = Callable[..., Awaitable[Any]]


class BrokerTls:
    """What listeners with TLS have."""

    def __init__(self, config: BrokerConfig, clock: Clock) -> None:
        """Load everything. Raises: ConfigError."""
        self._clock = clock
        self._config = config
        self._changing = asyncio.Lock()  # a look at files and other settings, one after the other
        hosts = {endpoint.name: endpoint.host for endpoint in config.advertised_listeners}
        self.by_listener: dict[str, ListenerTls] = {}
        for name, settings in config.tls.items():
            # With it comes `cryptography`: a broker without TLS starts, and is small, without.
            from barnabas_broker.security.tls.listener_tls import ListenerTls

            self.by_listener[name] = ListenerTls(
                settings,
                now_ms=clock.wall_ms(),
                is_of_brokers=name == config.inter_broker_listener_name,
                advertised_host=hosts.get(name, ""),
            )
        self.of_brokers = self.by_listener.get(config.inter_broker_listener_name)
        """That of the listener by which brokers reach one another."""

    async def watch(self, run: Run) -> None:
        """Look at the files again and again; `run` calls something in a thread."""
        while True:
            await asyncio.sleep(POLL_SECONDS)
            await self.poll(run)

    async def poll(self, run: Run) -> None:
        """Look at the files of all listeners once."""
        for tls in self.by_listener.values():
            try:
                async with self._changing:
                    await run(tls.poll, self._clock.wall_ms())
            except Exception:
                _log.exception("%s: its certificate cannot be looked at", tls.listener)

    async def take_over(self, values: Mapping[str, str], run: Run) -> None:
        """Use other settings, as AlterConfigs has brought them, where they can serve.

        A listener that cannot keeps what it has, and tells why.
        """
        for endpoint, tls in self._by_endpoint():
            try:
                async with self._changing:
                    renewed = await self._prepared(endpoint, tls, values, run)
                    if renewed is not None:
                        tls.replace(renewed)
            except ConfigError as error:
                tls.refuse(str(error))

    async def check(self, values: Mapping[str, str], run: Run) -> None:
        """Try other settings without using them. Raises: ConfigError where they cannot serve."""
        for endpoint, tls in self._by_endpoint():
            await self._prepared(endpoint, tls, values, run)

    def _by_endpoint(self) -> list[tuple[Endpoint, ListenerTls]]:
        found = self.by_listener
        return [(one, found[one.name]) for one in self._config.listeners if one.name in found]

    async def _prepared(
        self, endpoint: Endpoint, tls: ListenerTls, values: Mapping[str, str], run: Run
    ) -> LoadedTls | None:
        """What a listener would have with other settings, None where they are the same ones.

        Raises: ConfigError.
        """
        settings = tls_settings(
            endpoint.name,
            endpoint.security_protocol,
            values,
            is_of_brokers=tls is self.of_brokers,
        )
        if settings == tls.loaded.settings:
            return None
        renewed: LoadedTls = await run(tls.prepare, settings, self._clock.wall_ms())
        return renewed

    def status(self) -> dict[str, Any]:
        """What `/status` shows of each listener with TLS."""
        return {
            name: {
                "subject": tls.loaded.material.subject,
                "names": sorted(tls.loaded.material.names),
                "certificate_sha256": tls.loaded.material.fingerprint,
                "trust_sha256": (
                    tls.loaded.material.anchors_hash if tls.loaded.material.anchors else None
                ),
                "not_after_ms": tls.loaded.material.not_after_ms,
                "reloads": tls.reloads,
                "failed_reloads": tls.failed_reloads,
                "refused": tls.last_error or None,
            }
            for name, tls in self.by_listener.items()
        }

    def samples(self) -> Iterator[Sample]:
        """When certificates end, and how renewals went."""
        for name, tls in self.by_listener.items():
            labels = {"listener": name}
            yield Sample(
                "barnabas_tls_certificate_not_after_seconds",
                "gauge",
                "When the first certificate of the listener's chain ends, as Unix time.",
                labels,
                tls.loaded.material.not_after_ms / 1000,
            )
            yield Sample(
                "barnabas_tls_reloads_total",
                "counter",
                "Renewed certificates, keys and anchors that were taken over.",
                labels,
                tls.reloads,
            )
            yield Sample(
                "barnabas_tls_reload_failures_total",
                "counter",
                "Looks at files that could not serve; the former ones stay in use.",
                labels,
                tls.failed_reloads,
            )
