"""What a broker does with settings in the metadata, beside what else changes with them."""

from __future__ import annotations

from collections.abc import Iterable
from types import SimpleNamespace
from typing import Any

import pytest

from barnabas_broker.config.dynamic import DynamicConfig
from barnabas_broker.lifecycle.broker_metadata_publisher import BrokerMetadataPublisher
from barnabas_broker.metadata.delta import MetadataDelta
from barnabas_broker.metadata.image import RESOURCE_BROKER, RESOURCE_TOPIC, MetadataImage
from barnabas_broker.metadata.records import ConfigRecord, MetadataRecord
from tests.support.replica_nodes import TOPIC, Links, ReplicaNode, led_by, topic_records
from tests.support.virtual_loop import run_virtual

KEY = "min.insync.replicas"


def application_of(node: ReplicaNode, replicas: Any = None) -> BrokerMetadataPublisher:
    groups: Any = SimpleNamespace()
    return BrokerMetadataPublisher(
        node_id=0,
        dynamic=DynamicConfig({}),
        logs=node.logs,
        replicas=replicas or node.replicas,
        groups=groups,
        report_directories=lambda misplaced: None,
        applied=lambda delta, image: None,
        spawn=lambda work: work.close(),
    )


def changed(image: MetadataImage, records: Iterable[MetadataRecord]) -> MetadataDelta:
    delta = MetadataDelta(image)
    for record in records:
        delta.apply(record)
    return delta


def test_settings_that_changed_while_logs_were_loaded_hold_from_the_first_image_on() -> None:
    """LEAD-7: a leader that missed a larger `min.insync.replicas` would acknowledge too early."""

    async def main() -> None:
        node = await ReplicaNode(0, Links()).start()
        await node.learn([*topic_records(), led_by(0, 0)])
        assert node.log.config.min_insync_replicas == 1
        raised = [ConfigRecord(RESOURCE_TOPIC, TOPIC, KEY, "2")]
        image = changed(node.image, raised).build()
        await application_of(node).apply(None, image)
        assert node.log.config.min_insync_replicas == 2
        for_all = [ConfigRecord(RESOURCE_BROKER, "", KEY, "3")]
        await application_of(node).apply(None, changed(node.image, for_all).build())
        assert node.log.config.min_insync_replicas == 3
        await node.stop()

    run_virtual(main())


def test_a_smaller_minimum_is_in_force_only_with_the_partitions_of_the_same_image() -> None:
    """REP-2: a snapshot brings it together with a new leader, whose predecessor hears of both."""

    async def main() -> None:
        node = await ReplicaNode(0, Links()).start()
        await node.learn([*topic_records(), led_by(0, 0)])
        application = application_of(node)
        raised = changed(node.image, [ConfigRecord(RESOURCE_TOPIC, TOPIC, KEY, "2")])
        node.image = raised.build()
        await application.apply(raised, node.image)
        node.produce(b"not acknowledged")
        assert node.log.high_watermark == 0

        apply = node.replicas.apply

        async def look(delta: MetadataDelta | None, image: MetadataImage) -> None:
            node.partition().brokers_changed()  # as whatever runs while others are made
            assert node.log.high_watermark == 0
            await apply(delta, image)

        node.replicas.apply = look  # type: ignore[method-assign]
        lowered = ConfigRecord(RESOURCE_TOPIC, TOPIC, KEY, "1")
        delta = changed(node.image, [lowered, led_by(1, 1)])
        await application.apply(delta, delta.build())
        assert node.log.config.min_insync_replicas == 1
        assert node.log.high_watermark == 0
        await node.stop()

    run_virtual(main())


def test_what_waited_for_a_larger_isr_is_committed_under_a_smaller_minimum() -> None:
    """REP-2, LOG-3."""

    async def main() -> None:
        node = await ReplicaNode(0, Links()).start()
        await node.learn([*topic_records(), led_by(0, 0)])
        application = application_of(node)
        for value, expected in (("2", 0), ("1", 1)):
            delta = changed(node.image, [ConfigRecord(RESOURCE_TOPIC, TOPIC, KEY, value)])
            node.image = delta.build()
            await application.apply(delta, node.image)
            if not expected:
                node.produce(b"waits")
            assert node.log.high_watermark == expected
        await node.stop()

    run_virtual(main())


def test_a_configuration_that_the_cluster_overrules_is_told_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """LEAD-7: from level 2 on the cluster's minimum holds, whatever a broker's file says."""

    def image_of(minimum: str) -> MetadataImage:
        records = [ConfigRecord(RESOURCE_BROKER, "", KEY, minimum)]
        return changed(MetadataImage.empty(), records).build()

    nobody: Any = None
    for own, told in (({KEY: "2"}, 1), ({KEY: "1"}, 0), ({}, 0)):
        caplog.clear()
        application = BrokerMetadataPublisher(
            node_id=0,
            dynamic=DynamicConfig(own),
            logs=nobody,
            replicas=SimpleNamespace(  # type: ignore[arg-type]
                future_logs=SimpleNamespace(on_moved=[]), on_made_late=[]
            ),
            groups=nobody,
            report_directories=lambda misplaced: None,
            applied=lambda delta, image: None,
            spawn=lambda work: work.close(),
        )
        for _ in range(3):
            application.apply_broker_configs(image_of("1"))
        assert len(caplog.records) == told
