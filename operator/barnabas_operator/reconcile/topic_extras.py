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
from barnabas_operator.kubernetes.api import ConflictError, KubernetesApi, KubernetesError, Object
from barnabas_operator.kubernetes.events import Events
from barnabas_operator.kubernetes.kinds import TOPIC
from barnabas_operator.kubernetes.objects import (
    is_going,
    is_paused,
    labels_of,
    name_of,
    namespace_of,
    uid_of,
)
from barnabas_operator.reconcile import connection_secret
from barnabas_operator.reconcile.connection_secret import SecretState
from barnabas_operator.reconcile.topic_discovery import discover, discovered_resource, patterns_of
from barnabas_operator.reconcile.topic_resources import TopicResource, read_topic
from barnabas_operator.spec import DISCOVERED_LABEL
from barnabas_operator.work.bounded import for_each, in_portions

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

        async def settle(resource: TopicResource) -> None:
            spec = resource.spec
            assert spec is not None
            if spec.is_paused or is_paused(resource.manifest):
                told[resource.name] = connection_secret.as_before(resource.old_status)
                return
            wanted = None
            if spec.connection_secret:
                wanted = connection_secret.connection_secret(
                    resource.manifest, spec.connection_secret, spec.topic, broker
                )
            told[resource.name], error = await connection_secret.settle(
                self.api, resource.manifest, wanted, resource.old_status
            )
            if error is not None:
                failed(error)

        await for_each(
            [
                resource
                for resource in resources
                if resource.spec is not None
                and not is_going(resource.manifest)
                and (resource.spec.connection_secret or resource.old_status.get("connectionSecret"))
            ],
            settle,
        )
        return told

    async def show_undeclared(
        self, broker: Object, admin: Admin, manifests: Sequence[Object]
    ) -> frozenset[str]:
        """Make and remove the resources that show undeclared topics; the names of the removed.

        `manifests` are all of the cluster. Raises: BarnabasError; KubernetesError.
        """
        patterns = patterns_of(broker)
        if not patterns and not any(map(_is_discovered, manifests)):
            return frozenset()
        resources = [read_topic(resource) async for resource in in_portions(manifests)]
        specs = [resource.spec for resource in resources if resource.spec is not None]
        topics = [listing.name for listing in await admin.topics.list()]
        found = discover(patterns, topics, specs)

        async def show(topic: str) -> None:
            try:
                await self.api.create(discovered_resource(broker, topic))
            except ConflictError:
                # A resource of that name is about something else; it is not ours to change.
                return

        removed = frozenset(found.removed)

        async def remove(resource: TopicResource) -> None:
            resource_name = namespace_of(resource.manifest), name_of(resource.manifest)
            # Somebody may have taken the label off meanwhile, and then it is a declaration.
            there = await self.api.get(TOPIC, *resource_name)
            if there is not None and _is_discovered(there):
                await self.api.delete(TOPIC, *resource_name, uid=uid_of(resource.manifest))

        await for_each(found.added, show)
        await for_each([resource for resource in resources if resource.name in removed], remove)
        return removed

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
            logger.info(
                "setting not read: %s of Broker %s: %s", _AUTO_CREATE, name_of(broker), error
            )

    async def _look_for_auto_creation(self, broker: Object, admin: Admin) -> None:
        cluster = await admin.cluster.describe()
        if not cluster.brokers:
            return
        resource = ConfigResource.broker(cluster.brokers[0].node_id)
        settings = (await admin.configs.describe({resource: [_AUTO_CREATE]})).unwrap()[resource]
        self._warned.add(uid_of(broker))
        entry = settings.get(_AUTO_CREATE)
        if entry is not None and entry.value == "true":
            await self.events.emit(
                broker,
                "AutoCreateTopics",
                f"{_AUTO_CREATE} is on in {namespace_of(broker)}/{name_of(broker)}: clients create"
                " topics that no resource declares",
                type_="Warning",
            )


def _is_discovered(manifest: Object) -> bool:
    return labels_of(manifest).get(DISCOVERED_LABEL) == "true"
