"""What Topics and their Broker may ask for besides topics: Secrets, listing what is undeclared.

Not here: what these look like (`connection_secret`, `topic_discovery`).
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from barnabas_client.admin.admin import Admin
from barnabas_client.admin.values.configs import ConfigResource
from barnabas_client.errors import BarnabasError, RetriableError
from barnabas_operator.kubernetes.api import (
    ConflictError,
    KubernetesApi,
    KubernetesError,
    Object,
)
from barnabas_operator.kubernetes.events import Events
from barnabas_operator.kubernetes.kinds import TOPIC
from barnabas_operator.kubernetes.objects import (
    is_going,
    is_paused,
    name_of,
    namespace_of,
    uid_of,
)
from barnabas_operator.reconcile import connection_secret
from barnabas_operator.reconcile.connection_secret import SecretState
from barnabas_operator.reconcile.topic_discovery import (
    discover,
    discovered_resource,
    patterns_of,
)
from barnabas_operator.reconcile.topic_resources import TopicResource
from barnabas_operator.work.bounded import for_each

logger = logging.getLogger(__name__)

_AUTO_CREATE = "auto.create.topics.enable"


@dataclass(slots=True)
class TopicExtras:
    """Carries them out; a Broker is warned once in the life of this process."""

    api: KubernetesApi
    events: Events
    _warned: set[str] = field(default_factory=set, init=False)

    async def secrets(
        self,
        broker: Object,
        resources: Sequence[TopicResource],
        failed: Callable[[KubernetesError], None],
    ) -> Mapping[str, SecretState]:
        """Make the Secrets that resources ask for, and tell what became of each.

        Whatever goes wrong with one of them `failed` hears of, and keeps no other one waiting.
        """
        told: dict[str, SecretState] = {}

        async def settle(one: TopicResource) -> None:
            spec = one.spec
            assert spec is not None
            if spec.is_paused or is_paused(one.manifest):
                told[one.name] = connection_secret.as_before(one.old_status)
                return
            wanted = None
            if spec.connection_secret:
                wanted = connection_secret.connection_secret(
                    one.manifest, spec.connection_secret, spec.topic, broker
                )
            told[one.name], error = await connection_secret.settle(
                self.api, one.manifest, wanted, one.old_status
            )
            if error is not None:
                failed(error)

        await for_each(
            [
                one
                for one in resources
                if one.spec is not None
                and not is_going(one.manifest)
                and (one.spec.connection_secret or one.old_status.get("connectionSecret"))
            ],
            settle,
        )
        return told

    async def show_undeclared(
        self, broker: Object, admin: Admin, resources: list[TopicResource]
    ) -> None:
        """Make and remove the resources that show undeclared topics; the removed ones leave the
        list.

        Raises: BarnabasError; KubernetesError.
        """
        specs = [one.spec for one in resources if one.spec is not None]
        patterns = patterns_of(broker)
        if not patterns and not any(spec.is_discovered for spec in specs):
            return
        topics = [listing.name for listing in await admin.topics.list()]
        found = discover(patterns, topics, specs)

        async def show(topic: str) -> None:
            try:
                await self.api.create(discovered_resource(broker, topic))
            except ConflictError:
                # A resource of that name is about something else; it is not ours to change.
                return

        async def remove(one: TopicResource) -> None:
            metadata = one.manifest["metadata"]
            await self.api.delete(
                TOPIC, metadata["namespace"], metadata["name"], uid=uid_of(one.manifest)
            )

        await for_each(found.added, show)
        gone = [one for one in resources if one.name in set(found.removed)]
        await for_each(gone, remove)
        resources[:] = [one for one in resources if one.name not in set(found.removed)]

    async def warn_of_auto_creation(self, broker: Object, admin: Admin) -> None:
        """Tell once that clients create topics which nobody declares.

        Raises: RetriableError; brokers that will not tell are not asked again.
        """
        if uid_of(broker) in self._warned:
            return
        try:
            await self._look_for_auto_creation(broker, admin)
        except RetriableError:
            raise
        except BarnabasError as error:
            self._warned.add(uid_of(broker))
            logger.info("%s of %s: %s", _AUTO_CREATE, name_of(broker), error)

    async def _look_for_auto_creation(self, broker: Object, admin: Admin) -> None:
        cluster = await admin.cluster.describe()
        if not cluster.brokers:
            return
        resource = ConfigResource.broker(cluster.brokers[0].node_id)
        settings = (await admin.configs.describe({resource: [_AUTO_CREATE]})).unwrap()[resource]
        self._warned.add(uid_of(broker))
        entry = settings.get(_AUTO_CREATE)
        if entry is not None and entry.value == "true":
            await self.events.tell(
                broker,
                "AutoCreateTopics",
                f"{_AUTO_CREATE} is on in {namespace_of(broker)}/{name_of(broker)}: clients create"
                " topics that no resource declares",
                type_="Warning",
            )
