"""Random histories of the metadata: however an image is come by, it is the same.

Live (each command's records applied to the image before), by replay of the log in batches of any
size, from a snapshot and the log behind it, and over the difference of two images: all are equal at
every offset, and each delta says what it changes. `METADATA_WALKS=3000` runs as many walks and says
how fast; `METADATA_SEED=n` begins at another one.
"""

from __future__ import annotations

import os
import random
import time
from collections.abc import Callable, Sequence
from typing import Any

from barnabas_broker.controller import (
    acls,
    brokers,
    client_quotas,
    configs,
    directories,
    elections,
    features,
    isr,
    leader_balance,
    partitions,
    producer_ids,
    reassignment,
    scram_credentials,
    topics,
)
from barnabas_broker.controller.brokers import Registration
from barnabas_broker.controller.client_quotas import QuotaChange
from barnabas_broker.controller.configs import ConfigChange, ResourceChange
from barnabas_broker.controller.features import FeatureChange, UpgradeType
from barnabas_broker.controller.partitions import NewPartitions
from barnabas_broker.controller.reassignment import Reassigned
from barnabas_broker.controller.scram_credentials import (
    CredentialDeletion,
    CredentialRules,
    CredentialUpsertion,
)
from barnabas_broker.controller.topics import NewTopic, TopicDefaults
from barnabas_broker.metadata.delta import MetadataDelta
from barnabas_broker.metadata.image import (
    NO_LEADER,
    RESOURCE_BROKER,
    RESOURCE_GROUP,
    RESOURCE_TOPIC,
    BrokerImage,
    MetadataImage,
    TopicImage,
)
from barnabas_broker.metadata.image_difference import difference
from barnabas_broker.metadata.record_codec import decode, encode
from barnabas_broker.metadata.records import (
    EpochRecord,
    FeatureRecord,
    MetadataRecord,
    SnapshotRecord,
)
from barnabas_broker.metadata.snapshot import decode_snapshot, encode_snapshot
from barnabas_broker.security.acl.acl import Acl, AclFilter
from barnabas_protocol.errors import KafkaError
from barnabas_protocol.messages.alter_partition import (
    AlterPartitionRequestPartitionData,
    AlterPartitionRequestTopicData,
    BrokerState,
)
from tests.support.partition_images import SETTINGS, directory
from tests.support.simulated_random import SimulatedRandom

WALKS = 40
STEPS = 60
CLUSTER_ID = "cluster"
NODES = range(5)
NAMES = ("a", "b", "c", "a.b")
TOPIC_KEYS = ("retention.ms", "min.insync.replicas")
GROUP_KEY, GROUP_VALUES = "consumer.session.timeout.ms", ("46000", "47000")

Command = Callable[[MetadataImage], Sequence[MetadataRecord]]


class Walk:
    """One history: its records as bytes, and the image at each offset at which a command ended."""

    def __init__(self, seed: int) -> None:
        self.pick = random.Random(seed)
        self.random = SimulatedRandom(seed)
        self.image = MetadataImage.empty()
        self.values: list[bytes] = []
        self.images: list[MetadataImage] = [self.image]
        self.kinds: set[type[MetadataRecord]] = set()

    # ---- commands --------------------------------------------------------------------------------

    def run(self) -> None:
        """Write a history."""
        self._commit([EpochRecord(1, 0, CLUSTER_ID), FeatureRecord(features.BARNABAS_VERSION, 1)])
        for node_id in NODES[:3]:
            self._commit(self._register(self.image, node_id))
        commands: list[Command] = [
            self._new_epoch,
            self._registers,
            self._comes_or_goes,
            self._creates,
            self._creates,
            self._deletes,
            self._grows,
            self._changes_settings,
            self._changes_quotas,
            self._creates_acls,
            self._deletes_acls,
            self._changes_credentials,
            self._allocates,
            self._changes_level,
            self._loses_directory,
            self._assigns_directory,
            self._proposes,
            self._proposes,
            self._reassigns,
            self._elects,
        ]
        for _ in range(STEPS):
            command = self.pick.choice(commands)
            try:
                self._commit(command(self.image))
            except KafkaError:
                continue  # refused: nothing is written

    def _commit(self, records: Sequence[MetadataRecord]) -> None:
        if not records:
            return
        before, delta = self.image, MetadataDelta(self.image)
        for record in records:
            delta.apply(record)
            value = encode(record)
            # Versions may leave out what an older level does not know: then both are the same.
            assert encode(decode(value) or record) == value
            self.values.append(value)
            self.kinds.add(type(record))
        self.image = delta.build()
        self.images.append(self.image)
        assert self.image.offset == len(self.values) - 1
        check_told(before, delta, self.image)

    def _broker(self, image: MetadataImage) -> BrokerImage:
        return self.pick.choice(list(image.brokers.values()))

    def _partition(self, image: MetadataImage) -> tuple[TopicImage, int]:
        topic = self.pick.choice(list(image.topics.by_id.values()) or [None])
        if topic is None:
            raise KafkaError(-1)  # type: ignore[arg-type]
        return topic, self.pick.randrange(len(topic.partitions))

    def _new_epoch(self, image: MetadataImage) -> Sequence[MetadataRecord]:
        return [EpochRecord(image.epoch + 1, self.pick.choice(NODES), CLUSTER_ID)]

    def _register(self, image: MetadataImage, node_id: int) -> Sequence[MetadataRecord]:
        known = image.brokers.get(node_id)
        numbers = range(self.pick.randint(1, 2))
        return brokers.register(
            image,
            Registration(
                node_id=node_id,
                incarnation_id=self.random.uuid(),
                cluster_id=CLUSTER_ID,
                listeners=(),
                rack=self.pick.choice((None, "r")),
                directories=tuple(directory(node_id, number) for number in numbers),
                previous_broker_epoch=known.epoch if known and self.pick.random() < 0.5 else -1,
                is_fenced=self.pick.random() < 0.3,
            ),
            SETTINGS,
            is_alive=False,
        )[0]

    def _registers(self, image: MetadataImage) -> Sequence[MetadataRecord]:
        return self._register(image, self.pick.choice(NODES))

    def _comes_or_goes(self, image: MetadataImage) -> Sequence[MetadataRecord]:
        node_id = self._broker(image).node_id
        command = self.pick.choice(
            (brokers.fence, brokers.unfence, brokers.unfence, brokers.begin_shutdown)
        )
        if command is brokers.begin_shutdown and image.brokers[node_id].fenced:
            return []
        if self.pick.random() < 0.1 and len(image.brokers) > 1:
            return brokers.unregister(image, node_id, SETTINGS)[0]
        return command(image, node_id, SETTINGS)

    def _creates(self, image: MetadataImage) -> Sequence[MetadataRecord]:
        new = [
            NewTopic(
                name=name,
                partition_count=self.pick.randint(1, 3),
                replication_factor=self.pick.randint(1, 3),
                configs={"retention.ms": "5"} if self.pick.random() < 0.5 else {},
            )
            for name in self.pick.sample(NAMES, self.pick.randint(1, 2))
        ]
        defaults = TopicDefaults(partition_count=1, replication_factor=1, broker_values={})
        return topics.create_topics(image, new, defaults=defaults, random=self.random)[0]

    def _deletes(self, image: MetadataImage) -> Sequence[MetadataRecord]:
        names = self.pick.sample(NAMES, self.pick.randint(1, 2))
        records = list(topics.delete_topics(image, names, is_enabled=True)[0])
        if self.pick.random() < 0.5:  # and made again: one delta of a follower has both
            records += self._creates(brokers.after(image, records))
        return records

    def _grows(self, image: MetadataImage) -> Sequence[MetadataRecord]:
        topic, _ = self._partition(image)
        asked = NewPartitions(name=topic.name, count=len(topic.partitions) + 1, assignments=None)
        return partitions.create_partitions(image, [asked], random=self.random)[0]

    def _changes_settings(self, image: MetadataImage) -> Sequence[MetadataRecord]:
        key, values = self.pick.choice(TOPIC_KEYS), ("1", "2")
        resource, name = self.pick.choice(
            [(RESOURCE_TOPIC, name) for name in image.topics.by_name]
            + [(RESOURCE_BROKER, ""), (RESOURCE_BROKER, "1"), (RESOURCE_GROUP, "g")]
        )
        if resource == RESOURCE_GROUP:
            key, values = GROUP_KEY, GROUP_VALUES
        if resource == RESOURCE_BROKER:
            key = "log.cleaner.threads"
        is_incremental = self.pick.random() < 0.7
        operation = self.pick.choice((0, 0, 1)) if is_incremental else 0
        value = None if operation else self.pick.choice(values)
        change = ResourceChange(
            resource_type=resource,
            resource_name=name,
            changes=[ConfigChange(key, operation, value)],
        )
        return configs.alter_configs(
            image, [change], broker_values={}, is_incremental=is_incremental
        )[0]

    def _changes_quotas(self, image: MetadataImage) -> Sequence[MetadataRecord]:
        value = None if self.pick.random() < 0.4 else float(self.pick.randrange(3))
        change = QuotaChange(
            entity=[("client-id", self.pick.choice((None, "a")))],
            quotas=[(client_quotas.PRODUCER_BYTE_RATE, value)],
        )
        return client_quotas.alter(image, [change])[0]

    def _creates_acls(self, image: MetadataImage) -> Sequence[MetadataRecord]:
        wanted = [
            Acl(2, self.pick.choice(NAMES), 3, self.pick.choice(("User:a", "User:*")), "*", 3, 3)
            for _ in range(self.pick.randint(1, 3))
        ]
        return acls.create(image, wanted)[0]

    def _deletes_acls(self, image: MetadataImage) -> Sequence[MetadataRecord]:
        wanted = [
            AclFilter(resource_name=self.pick.choice((None, *NAMES)), principal="User:a"),
            AclFilter(resource_name=self.pick.choice(NAMES)),
        ]
        return acls.delete(image, acls.plan_deletion(image.acls, wanted))[0]

    def _changes_credentials(self, image: MetadataImage) -> Sequence[MetadataRecord]:
        user, rules = (
            self.pick.choice(("alice", "bob")),
            CredentialRules(may_change=lambda user: True, overlap_ms=5, now_ms=7, new_secret=bytes),
        )
        if self.pick.random() < 0.4:
            return scram_credentials.alter(image, [CredentialDeletion(user, 1)], [], rules)[0]
        change = CredentialUpsertion(
            user=user,
            mechanism=1,
            iterations=4096,
            salt=self.pick.choice((b"salt", b"other")),
            salted_password=bytes([self.pick.randrange(3)]),
        )
        return scram_credentials.alter(image, [], [change], rules)[0]

    def _allocates(self, image: MetadataImage) -> Sequence[MetadataRecord]:
        broker = self._broker(image)
        return producer_ids.allocate(image, broker.node_id, broker.epoch)[0]

    def _changes_level(self, image: MetadataImage) -> Sequence[MetadataRecord]:
        change = FeatureChange(
            name=features.BARNABAS_VERSION,
            level=self.pick.choice((1, 2, 3, 3)),
            upgrade_type=self.pick.choice((UpgradeType.UPGRADE, UpgradeType.SAFE_DOWNGRADE)),
        )
        return features.update(image, [change])[0]

    def _loses_directory(self, image: MetadataImage) -> Sequence[MetadataRecord]:
        broker = self._broker(image)
        if len(broker.directories) < 2:
            return []
        return brokers.without_directories(
            image, broker.node_id, [self.pick.choice(broker.directories)], SETTINGS
        )

    def _assigns_directory(self, image: MetadataImage) -> Sequence[MetadataRecord]:
        topic, index = self._partition(image)
        broker = self._broker(image)
        place = directory(broker.node_id, self.pick.randint(0, 1))
        assigned = {(topic.topic_id, index): place}
        return directories.assign_replicas(image, broker.node_id, broker.epoch, assigned)[0]

    def _proposes(self, image: MetadataImage) -> Sequence[MetadataRecord]:
        topic, index = self._partition(image)
        state = topic.partitions[index]
        if state.leader == NO_LEADER:
            return elections.elect_offline(image, SETTINGS)[0]
        members = {state.leader, *self.pick.sample(state.replicas, len(state.replicas) // 2 + 1)}
        epochs = {node_id: broker.epoch for node_id, broker in image.brokers.items()}
        asked = AlterPartitionRequestPartitionData(
            partition_index=index,
            leader_epoch=state.leader_epoch,
            partition_epoch=state.partition_epoch,
            new_isr_with_epochs=[
                BrokerState(broker_id=node, broker_epoch=epochs.get(node, -1))
                for node in sorted(members)
            ],
        )
        topic_asked = AlterPartitionRequestTopicData(topic_id=topic.topic_id, partitions=[asked])
        return isr.alter_partitions(image, state.leader, epochs[state.leader], [topic_asked])[0]

    def _reassigns(self, image: MetadataImage) -> Sequence[MetadataRecord]:
        topic, index = self._partition(image)
        nodes = list(image.brokers)
        target = None
        if self.pick.random() < 0.8:
            target = tuple(self.pick.sample(nodes, self.pick.randint(1, min(3, len(nodes)))))
        return reassignment.alter(image, [Reassigned(topic.name, index, target)], SETTINGS)[0]

    def _elects(self, image: MetadataImage) -> Sequence[MetadataRecord]:
        if self.pick.random() < 0.5:
            return leader_balance.plan(image, 3)[0]
        return leader_balance.elect_leaders(image, self.pick.randint(0, 1), None)[0]

    # ---- what must be so -------------------------------------------------------------------------

    def check(self) -> None:
        """Come by the images of the history in every other way."""
        last = self.images[-1]
        assert self._replayed(MetadataImage.empty(), last) == last
        for _ in range(4):
            image, later = sorted(self.pick.choices(self.images, k=2), key=lambda one: one.offset)
            if image.offset >= 0:
                from_snapshot = decode_snapshot(encode_snapshot(image, 0))
                assert from_snapshot == image
                assert self._replayed(from_snapshot, last) == last
                # A snapshot of a snapshot is the same file: nothing is left out of it.
                assert encode_snapshot(from_snapshot, 0) == encode_snapshot(image, 0)
            if later.offset >= 0:
                delta = difference(image, later)
                built = delta.build()
                assert built == later
                check_told(image, delta, built)
                assert self._replayed(built, last) == last

    def _replayed(self, start: MetadataImage, end: MetadataImage) -> MetadataImage:
        """The image of the log's records behind another one, in batches as they may come."""
        image = start
        values = self.values[start.offset + 1 : end.offset + 1]
        while values:
            count = self.pick.choice((1, 2, 5, len(values)))
            batch, values = values[:count], values[count:]
            delta = MetadataDelta(image)
            for value in batch:
                delta.apply(decode(value))
            before, image = image, delta.build()
            check_told(before, delta, image)
        return image


def check_told(before: MetadataImage, delta: MetadataDelta, after: MetadataImage) -> None:
    """A delta says all that is different: subscribers look at nothing else."""
    old, new = before.topics, after.topics
    assert {topic.topic_id: topic for topic in new.by_name.values()} == dict(new.by_id)
    for name in {**old.by_name, **new.by_name}:
        was, now = old.by_name.get(name), new.by_name.get(name)
        if now is not None and was != now:
            assert name in delta.changed_topics
        was_id = None if was is None else was.topic_id
        now_id = None if now is None else now.topic_id
        assert delta.deleted.get(name) == (was_id if was_id != now_id else None)
        assert delta.created.get(name) == (now_id if was_id != now_id else None)
    assert delta.changed_topics.keys() <= new.by_name.keys()
    _check_keys(before.brokers, after.brokers, delta.changed_brokers)
    _check_keys(before.client_quotas, after.client_quotas, delta.changed_quotas)
    _check_keys(before.configs, after.configs, delta.changed_configs)
    told = {acl: acl in after.acls for acl in {*before.acls, *after.acls}}
    said = delta.acl_changes()
    assert all(told.get(acl, False) == is_there for acl, is_there in said.items())
    assert {acl for acl in told if (acl in before.acls) != told[acl]} <= said.keys()


def _check_keys(before: Any, after: Any, told: Any) -> None:
    for key in {**before, **after}:
        if before.get(key) != after.get(key):
            assert key in told


def test_an_image_is_the_same_however_it_is_come_by() -> None:
    """CTL-12: live = replay = snapshot + log = difference; seeds are printed with a failure."""
    walks = int(os.environ.get("METADATA_WALKS", WALKS))
    first = int(os.environ.get("METADATA_SEED", 0))
    began = time.perf_counter()
    kinds: set[type[MetadataRecord]] = set()
    records = 0
    for seed in range(first, first + walks):
        walk = Walk(seed)
        try:
            walk.run()
            walk.check()
        except Exception as error:
            raise AssertionError(f"METADATA_SEED={seed} METADATA_WALKS=1: {error!r}") from error
        kinds |= walk.kinds
        records += len(walk.values)
    seconds = time.perf_counter() - began
    print(
        f"{walks} walks from seed {first}, {records} records, {walks / seconds:.0f} walks a second"
    )
    written = {kind.type_number for kind in MetadataRecord.__subclasses__()}
    seen = {kind.type_number for kind in kinds} | {SnapshotRecord.type_number}
    assert walks < WALKS or seen == written
