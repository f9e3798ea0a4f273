"""The steps with confluent-kafka, that is librdkafka."""

import time
import uuid
from typing import Any

from confluent_kafka import (
    Consumer,
    ConsumerGroupState,
    ConsumerGroupTopicPartitions,
    Producer,
    TopicPartition,
)
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewPartitions,
    NewTopic,
)

from tests.interop.clients import steps
from tests.interop.clients.steps import DEADLINE_SECONDS, Item


def _wait(futures: dict[Any, Any]) -> None:
    for future in futures.values():
        future.result(DEADLINE_SECONDS)


def _to_item(message: Any) -> Item:
    headers = tuple((name, value) for name, value in message.headers() or ())
    position = (message.partition(), message.offset(), message.timestamp()[1])
    return Item(*position, message.key(), message.value(), headers)


class ConfluentClient:
    def __init__(self, bootstrap: str) -> None:
        self.bootstrap = bootstrap
        self.admin = AdminClient({"bootstrap.servers": bootstrap})

    def close(self) -> None:
        pass

    def create(self, topic: str, partitions: str, *configs: str) -> None:
        config = dict(pair.split("=", 1) for pair in configs)
        _wait(self.admin.create_topics([NewTopic(topic, int(partitions), 1, config=config)]))

    def create_partitions(self, topic: str, total: str) -> None:
        _wait(self.admin.create_partitions([NewPartitions(topic, int(total))]))

    def produce(self, topic: str, codec: str, idempotent: str, path: str) -> str:
        failures = []
        config = {
            "bootstrap.servers": self.bootstrap,
            "compression.type": codec,
            "enable.idempotence": idempotent == "1",
            "acks": "all",
            "linger.ms": 20,
        }
        producer = Producer(config)

        def on_delivery(error: Any, _: Any) -> None:
            if error is not None:
                failures.append(error)

        items = steps.read_items(path)
        for item in items:
            producer.produce(
                topic,
                value=item.value,
                key=item.key,
                partition=item.partition,
                timestamp=item.timestamp,
                headers=list(item.headers),
                on_delivery=on_delivery,
            )
        left = producer.flush(DEADLINE_SECONDS)
        if left or failures:
            raise RuntimeError(f"{left} not delivered, failures: {failures[:3]}")
        return str(len(items))

    def _consumer(self, group: str, **more: Any) -> Consumer:
        return Consumer(
            {
                "bootstrap.servers": self.bootstrap,
                "group.id": group,
                "auto.offset.reset": "earliest",
                "enable.auto.commit": False,
                "session.timeout.ms": 10000,
                **more,
            }
        )

    def _poll(self, consumer: Consumer, count: int) -> list[Item]:
        items: list[Item] = []
        deadline = time.monotonic() + DEADLINE_SECONDS
        while len(items) < count:
            if time.monotonic() > deadline:
                raise TimeoutError(f"read {len(items)} of {count}")
            message = consumer.poll(0.5)
            if message is None:
                continue
            if message.error():
                raise RuntimeError(str(message.error()))
            items.append(_to_item(message))
        return items

    def consume(self, topic: str, group: str, count: str, path: str) -> str:
        consumer = self._consumer(group)
        consumer.subscribe([topic])
        items = self._poll(consumer, int(count))
        consumer.commit(asynchronous=False)
        consumer.close()
        steps.write_items(path, items)
        return str(len(items))

    def _partitions(self, consumer: Consumer, topic: str) -> list[int]:
        return sorted(consumer.list_topics(topic, DEADLINE_SECONDS).topics[topic].partitions)

    def read(self, topic: str, count: str, path: str) -> str:
        consumer = self._consumer(f"reader-{uuid.uuid4()}")
        partitions = self._partitions(consumer, topic)
        consumer.assign([TopicPartition(topic, p, 0) for p in partitions])
        items = self._poll(consumer, int(count))
        consumer.close()
        steps.write_items(path, items)
        return str(len(items))

    def seek(self, topic: str, timestamp: str, path: str) -> str:
        consumer = self._consumer(f"seeker-{uuid.uuid4()}")
        partitions = self._partitions(consumer, topic)
        wanted = [TopicPartition(topic, p, int(timestamp)) for p in partitions]
        found = consumer.offsets_for_times(wanted, DEADLINE_SECONDS)
        ends = [consumer.get_watermark_offsets(p, DEADLINE_SECONDS)[1] for p in found]
        starts = [p.offset if p.offset >= 0 else end for p, end in zip(found, ends, strict=True)]
        consumer.assign(
            [TopicPartition(topic, p, s) for p, s in zip(partitions, starts, strict=True)]
        )
        items = self._poll(consumer, sum(ends) - sum(starts))
        consumer.close()
        steps.write_items(path, items)
        return steps.pairs_text(zip(partitions, starts, strict=True))

    def offsets(self, topic: str) -> str:
        consumer = self._consumer("offsets")
        pairs = []
        for partition in self._partitions(consumer, topic):
            low, high = consumer.get_watermark_offsets(
                TopicPartition(topic, partition), DEADLINE_SECONDS, cached=False
            )
            pairs.append((partition, f"{low}:{high}"))
        consumer.close()
        return steps.pairs_text(pairs)

    def committed(self, group: str, topic: str) -> str:
        request = [ConsumerGroupTopicPartitions(group)]
        future = self.admin.list_consumer_group_offsets(request)[group]
        partitions = future.result(DEADLINE_SECONDS).topic_partitions
        return steps.pairs_text((p.partition, p.offset) for p in partitions if p.topic == topic)

    def config(self, topic: str, key: str) -> str:
        resource = ConfigResource("topic", topic)
        future = self.admin.describe_configs([resource])[resource]
        return str(future.result(DEADLINE_SECONDS)[key].value)

    def alter_config(self, topic: str, key: str, value: str) -> None:
        entry = ConfigEntry(key, value, incremental_operation=AlterConfigOpType.SET)
        resource = ConfigResource("topic", topic, incremental_configs=[entry])
        _wait(self.admin.incremental_alter_configs([resource]))

    def topics(self) -> str:
        return ",".join(sorted(self.admin.list_topics(timeout=DEADLINE_SECONDS).topics))

    def groups(self) -> str:
        result = self.admin.list_consumer_groups().result(DEADLINE_SECONDS)
        return ",".join(sorted(group.group_id for group in result.valid))

    def delete(self, topic: str) -> None:
        _wait(self.admin.delete_topics([topic]))

    def delete_group(self, group: str) -> None:
        _wait(self.admin.delete_consumer_groups([group]))

    def stable(self, group: str) -> None:
        """Waits until the group has members and all have their partitions."""
        deadline = time.monotonic() + DEADLINE_SECONDS
        while time.monotonic() < deadline:
            described = self.admin.describe_consumer_groups([group])[group]
            if described.result(DEADLINE_SECONDS).state == ConsumerGroupState.STABLE:
                return
            self.admin.poll(0.05)
        raise TimeoutError(f"group {group} is not stable")

    def rebalance(self, topic: str, group: str, total: str) -> str:
        """Three members share the partitions; one leaves, two share them. Both splits, as text."""
        consumers = [self._consumer(group) for _ in range(3)]
        for consumer in consumers:
            consumer.subscribe([topic])
        counts = [self._settle(consumers, int(total))]
        consumers.pop().close()
        counts.append(self._settle(consumers, int(total)))
        for consumer in consumers:
            consumer.close()
        return ";".join(counts)

    def _settle(self, consumers: list[Consumer], total: int) -> str:
        deadline = time.monotonic() + DEADLINE_SECONDS
        while time.monotonic() < deadline:
            for consumer in consumers:
                consumer.poll(0.05)
            sets = [{p.partition for p in consumer.assignment()} for consumer in consumers]
            if all(sets) and sum(map(len, sets)) == total == len(set().union(*sets)):
                return ",".join(str(size) for size in sorted(map(len, sets)))
        raise TimeoutError(f"no complete assignment: {sets}")


if __name__ == "__main__":
    steps.main(ConfluentClient)
