"""Elections that the active controller holds by itself, from time to time: one task.

Leaders for partitions without one (LEAD-9), and leadership back to preferred replicas (LEAD-8).
Each pass is one event of at most 1000 elections; where there is more to do another follows (CTL-8).
Not here: who is elected (`elections`, `leader_balance`).
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Collection
from typing import Final

from barnabas_broker.controller import elections, leader_balance
from barnabas_broker.controller.elections import TopicConfigs
from barnabas_broker.controller.event_queue import Command
from barnabas_broker.metadata.image import MetadataImage
from barnabas_broker.metadata.records import PartitionRecord

logger = logging.getLogger(__name__)

# `unclean.leader.election.interval.ms` of Kafka; a change of the settings is acted on at once.
_OFFLINE_INTERVAL_SECONDS: Final = 300

_Plan = Callable[[MetadataImage], tuple[list[PartitionRecord], bool]]


class ScheduledElections:
    """Puts passes in the controller's queue."""

    def __init__(
        self,
        enqueue: Callable[[Command[bool]], asyncio.Future[bool]],
        configs: TopicConfigs,
        *,
        balance_interval_seconds: int | None,
        cordoned: Callable[[MetadataImage], Collection[int]] = lambda _: (),
        cordoned_directories: Callable[[], Collection[bytes]] = tuple,
    ) -> None:
        """Without an interval leadership is not moved back; never to `cordoned` brokers.

        Who leads instead of nobody has its replica elsewhere than in `cordoned_directories`, if
        there is a choice.
        """
        self._cordoned = cordoned
        self._cordoned_directories = cordoned_directories
        self._enqueue = enqueue
        self._configs = configs
        self._balance_interval_seconds = balance_interval_seconds
        self._tasks: list[asyncio.Task[None]] = []

    def start(self) -> None:
        """Begin with the partitions that have no leader (CTL-6)."""
        work = [(self._elect_offline, 0, _OFFLINE_INTERVAL_SECONDS)]
        if self._balance_interval_seconds is not None:
            interval = self._balance_interval_seconds
            work.append((self._balance, interval, interval))
        self._tasks = [
            asyncio.create_task(self._repeat(plan, first, interval), name="scheduled elections")
            for plan, first, interval in work
        ]

    def stop(self) -> None:
        """Put nothing more in the queue; safe at any time."""
        for task in self._tasks:
            task.cancel()
        self._tasks.clear()

    def elect_offline(self) -> None:
        """Look for partitions without a leader now: who may lead has changed (LEAD-9)."""
        if self._tasks:
            self._tasks = [task for task in self._tasks if not task.done()]
            self._tasks.append(
                asyncio.create_task(self._pass(self._elect_offline), name="scheduled elections")
            )

    def relieve(self) -> None:
        """Look for partitions that are led where the disk fills up."""
        if self._tasks:
            self._tasks = [task for task in self._tasks if not task.done()]
            self._tasks.append(
                asyncio.create_task(self._pass(self._relieve), name="scheduled elections")
            )

    def _relieve(self, image: MetadataImage) -> tuple[list[PartitionRecord], bool]:
        records, has_more = leader_balance.relieve(image, self._cordoned(image))
        if records:
            logger.warning("%d partitions leave leaders whose disks fill up", len(records))
        return records, has_more

    async def _repeat(self, plan: _Plan, first_seconds: int, interval_seconds: int) -> None:
        delay_seconds = first_seconds
        while True:
            await asyncio.sleep(delay_seconds)
            await self._pass(plan)
            delay_seconds = interval_seconds

    async def _pass(self, plan: _Plan) -> None:
        try:
            while await self._enqueue(plan):
                pass
        except Exception as error:
            logger.warning("a look for leaders was broken off: %s", error)

    def _elect_offline(self, image: MetadataImage) -> tuple[list[PartitionRecord], bool]:
        return elections.elect_offline(image, self._configs, cordoned=self._cordoned_directories())

    def _balance(self, image: MetadataImage) -> tuple[list[PartitionRecord], bool]:
        records, has_more = leader_balance.plan(image, cordoned=self._cordoned(image))
        if records:
            logger.info("%d partitions go back to their preferred leaders", len(records))
        return records, has_more
