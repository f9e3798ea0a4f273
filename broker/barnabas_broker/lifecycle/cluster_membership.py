"""This broker as a member of its cluster: the way to the controller, its place there, its drain.

Puts together `broker_lifecycle_manager`, `drainer`, `assignments_manager` and the controller's
channel; decides nothing. Source: BOOT-2, REG-1, REG-9.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterable, Sequence
from typing import Any, Final

from barnabas_broker.config.listeners import Endpoint
from barnabas_broker.config.parse import BrokerConfig
from barnabas_broker.controller import features
from barnabas_broker.controller.channel import ControllerChannel
from barnabas_broker.controller.controller import Controller
from barnabas_broker.controller.local import LocalController
from barnabas_broker.env.clock import Clock
from barnabas_broker.env.randomness import Random
from barnabas_broker.lifecycle.assignments_manager import AssignmentsManager
from barnabas_broker.lifecycle.broker_lifecycle_manager import (
    BrokerLifecycleManager,
    LifecycleSettings,
)
from barnabas_broker.lifecycle.drain import DrainEnd, DrainPhase
from barnabas_broker.lifecycle.drainer import Drainer
from barnabas_broker.lifecycle.lost_replicas import report_losses
from barnabas_broker.log.manager.log_manager import LogManager
from barnabas_broker.metadata.delta import MetadataDelta
from barnabas_broker.metadata.image import MetadataImage
from barnabas_broker.metadata.publisher import ImageWatch, MetadataPublisher
from barnabas_broker.metadata.quorum.metadata_quorum import MetadataQuorum
from barnabas_broker.network.broker_connections import BrokerConnections
from barnabas_protocol.ids import TopicPartition
from barnabas_protocol.messages.broker_registration import (
    BrokerRegistrationRequest,
    Feature,
    Listener,
)

# A controller that does not answer is not waited for by a broker that stops.
LEAVE_MS_MAX: Final = 1000
# Where all others stop too, the controller may be gone first, and nobody misses this broker.
LEAVE_LAST_MS_MAX: Final = 100
_LEAVE_LOOK_SECONDS: Final = 0.05

_SECURITY_PROTOCOLS: Final = {"PLAINTEXT": 0, "SSL": 1, "SASL_PLAINTEXT": 2, "SASL_SSL": 3}


class ClusterMembership:
    """One broker's place in its cluster."""

    def __init__(
        self,
        *,
        config: BrokerConfig,
        logs: LogManager,
        clock: Clock,
        random: Random,
        connections: BrokerConnections,
        quorum: MetadataQuorum,
        controller: Controller,
        publisher: MetadataPublisher,
        advertised: Callable[[], Sequence[Endpoint]],
        spawn: Callable[[Coroutine[Any, Any, None]], None],
        on_fatal: Callable[[BaseException], None],
        on_drain: Callable[[], None],
        is_repeatable: Callable[[Any], bool],
    ) -> None:
        """Make one that has not registered; the metadata log must have been recovered."""
        self._config = config
        self._logs = logs
        self._quorum = quorum
        self._advertised = advertised
        self._incarnation_id = random.uuid()
        self._reachability = connections.reachability
        self.published = ImageWatch()  # what is committed, as far as this node knows
        publisher.subscribe(self.published)
        self.applied = ImageWatch()  # what this broker's parts have acted on
        local = LocalController(controller)
        self.channel = ControllerChannel(
            connections.peers,
            clock,
            controller_id=lambda: quorum.leader_id,
            local=lambda: local if controller.is_active else None,
            wait_for_change=quorum.wait_for_change,
            is_repeatable=is_repeatable,
        )
        self.lifecycle = BrokerLifecycleManager(
            node_id=logs.node_id,
            settings=LifecycleSettings.of(config),
            channel=self.channel,
            clock=clock,
            describe=self.registration,
            registered=logs.note_broker_epoch,
            image=lambda: self.applied.image,
            offline_directories=lambda: [
                one.directory_id for one in logs.directories if one.is_offline
            ],
            cordoned_directories=lambda: logs.disk_guard.cordoned,
            on_fatal=on_fatal,
            majority_heard_ms=lambda: quorum.majority_heard_ms,
        )
        logs.disk_guard.on_change.append(lambda *_: self.lifecycle.wake())
        self.applied.on_change.append(self.lifecycle.image_applied)
        self.drainer = Drainer(
            node_id=logs.node_id,
            clock=clock,
            lifecycle=self.lifecycle,
            image=lambda: self.applied.image,
            budget_ms=config.barnabas_drain_budget_ms,
            on_start=on_drain,
            is_undecided=self._is_undecided,
        )
        self.directory_reports = AssignmentsManager(
            node_id=logs.node_id,
            channel=self.channel,
            timeout_ms=config.request_timeout_ms,
            image=lambda: self.applied.image,
            spawn=spawn,
        )

    def registration(self) -> BrokerRegistrationRequest:
        """What this broker tells of itself (REG-1)."""
        logs = self._logs
        return BrokerRegistrationRequest(
            broker_id=logs.node_id,
            cluster_id=logs.cluster_id,
            incarnation_id=self._incarnation_id,
            listeners=[
                Listener(
                    name=endpoint.name,
                    host=endpoint.host,
                    port=endpoint.port,
                    security_protocol=_SECURITY_PROTOCOLS[endpoint.security_protocol],
                )
                for endpoint in self._advertised()
            ],
            features=[
                Feature(
                    name=name,
                    min_supported_version=levels.minimum,
                    max_supported_version=levels.maximum,
                )
                for name, levels in features.SUPPORTED.items()
            ],
            rack=self._config.broker_rack,
            log_dirs=[one.directory_id for one in logs.online_directories()],
            previous_broker_epoch=min(one.kept_broker_epoch for one in logs.directories),
        )

    def note_applied(self, delta: MetadataDelta | None, image: MetadataImage) -> None:
        """Take note of metadata that this broker has acted on, and say so where one waits for it.

        A broker that shuts down waits until all others know (STOP-5).
        """
        self.applied(delta, image)
        if delta is None:
            return
        changed = (image.brokers.get(node_id) for node_id in delta.changed_brokers)
        if any(broker is not None and broker.is_shutting_down for broker in changed):
            self.lifecycle.wake()

    async def join(self) -> None:
        """Register, fenced; return when this node has all metadata up to its registration.

        Raises: RegistrationError.
        """
        await self.lifecycle.register(lambda: self._quorum.is_arbiter_away)
        self.lifecycle.start()
        broker_epoch = self.lifecycle.broker_epoch
        await self.published.until(lambda image: image.offset >= broker_epoch)

    async def report_losses(self, lost: Iterable[TopicPartition]) -> None:
        """Return once the controller knows of the replicas that lack records."""
        await report_losses(
            lost,
            node_id=self._logs.node_id,
            broker_epoch=lambda: self.lifecycle.broker_epoch,
            image=lambda: self.published.image,
            channel=self.channel,
            timeout_ms=self._config.request_timeout_ms,
        )

    @property
    def has_peers(self) -> bool:
        """Whether there are other brokers to tell, and to lead in this one's place."""
        return any(
            not broker.fenced and broker.node_id != self._logs.node_id
            for broker in self.published.image.brokers.values()
        )

    def _is_undecided(self) -> bool:
        """Whether so many members of the metadata log are out of reach that nothing changes."""
        members = {voter.node_id for voter in self._quorum.record.members}
        others = members - {self._logs.node_id}
        lost = {node_id for node_id in others if self._reachability.is_suspected(node_id)}
        for node_id in others - lost:
            self._reachability.suspect(node_id)  # no longer than until it accepts
        return len(members) - len(lost) <= len(members) // 2 if members else False

    @property
    def _is_missed(self) -> bool:
        """Whether others go on, and somebody can tell them that this broker has gone."""
        if self.drainer.state.end is DrainEnd.NOBODY_DECIDES:
            return False
        return any(
            not broker.fenced
            and not broker.is_shutting_down
            and broker.node_id != self._logs.node_id
            and self._reachability.refused_since_ms(broker.node_id) is None
            for broker in self.published.image.brokers.values()
        )

    async def leave(self) -> None:
        """Be fenced now, unless that has happened or concerns nobody (REG-9). Never raises."""
        broker = self.published.image.brokers.get(self._logs.node_id)
        is_in = broker is not None and broker.epoch == self.lifecycle.broker_epoch
        is_served = broker is not None and (not broker.fenced or self._may_be_unfenced)
        if self.has_peers and is_in and is_served:
            await self._be_fenced()
        await self.lifecycle.close()

    @property
    def _may_be_unfenced(self) -> bool:
        """Whether this broker has asked to serve and has not begun to drain: a start is cut off."""
        is_wished = not self.lifecycle.requested_state.is_fenced
        return is_wished and self.drainer.state.phase is DrainPhase.RUNNING

    async def _be_fenced(self) -> None:
        leaving = asyncio.create_task(
            self.lifecycle.leave(LEAVE_MS_MAX, is_last=lambda: not self._is_missed)
        )
        while self._is_missed and not leaving.done():
            await asyncio.wait((leaving,), timeout=_LEAVE_LOOK_SECONDS)
        await asyncio.wait((leaving,), timeout=LEAVE_LAST_MS_MAX / 1000)
        leaving.cancel()
        await asyncio.gather(leaving, return_exceptions=True)

    async def close(self) -> None:
        """End what runs; safe twice."""
        await self.drainer.close()
        await self.lifecycle.close()
