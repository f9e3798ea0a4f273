"""The steps with kafka-python, for both its lines (2.3 and 3.0)."""

import time
import uuid
from typing import Any

import kafka
from kafka import KafkaAdminClient, KafkaConsumer, KafkaProducer, TopicPartition
from kafka.admin import ConfigResource, ConfigResourceType, NewPartitions, NewTopic
from kafka.errors import KafkaConnectionError

from tests.interop.clients import steps
from tests.interop.clients.steps import DEADLINE_SECONDS, Item

_MAJOR = int(kafka.__version__.split(".")[0])


def _to_item(record: Any) -> Item:
    position = (record.partition, record.offset, record.timestamp)
    return Item(*position, record.key, record.value, tuple(record.headers))


class KafkaPythonClient:
    def __init__(self, bootstrap: str) -> None:
        self.bootstrap = bootstrap
        self.admin = KafkaAdminClient(bootstrap_servers=bootstrap)

    def close(self) -> None:
        self.admin.close()

    def create(self, topic: str, partitions: str, *configs: str) -> None:
        config = dict(pair.split("=", 1) for pair in configs)
        new = NewTopic(topic, int(partitions), 1, topic_configs=config)
        self.admin.create_topics([new])

    def create_partitions(self, topic: str, total: str) -> None:
        self.admin.create_partitions({topic: NewPartitions(int(total))})

    def produce(self, topic: str, codec: str, idempotent: str, path: str) -> str:
        producer = KafkaProducer(
            bootstrap_servers=self.bootstrap,
            compression_type=None if codec == "none" else codec,
            enable_idempotence=idempotent == "1",
            acks="all",
            linger_ms=20,
        )
        items = steps.read_items(path)
        futures = [
            producer.send(
                topic,
                value=item.value,
                key=item.key,
                headers=list(item.headers),
                partition=item.partition,
                timestamp_ms=item.timestamp,
            )
            for item in items
        ]
        producer.flush(DEADLINE_SECONDS)
        for future in futures:
            future.get(DEADLINE_SECONDS)
        producer.close()
        return str(len(items))

    def _consumer(self, group: str | None) -> KafkaConsumer:
        return KafkaConsumer(
            bootstrap_servers=self.bootstrap,
            group_id=group,
            auto_offset_reset="earliest",
            enable_auto_commit=False,
        )

    def _poll(self, consumer: KafkaConsumer, count: int) -> list[Item]:
        items: list[Item] = []
        deadline = time.monotonic() + DEADLINE_SECONDS
        while len(items) < count:
            if time.monotonic() > deadline:
                raise TimeoutError(f"read {len(items)} of {count}")
            try:
                polled = consumer.poll(500)
            except KafkaConnectionError:
                # Line 3.0 passes it on when it looks up offsets while the broker is away.
                continue
            for records in polled.values():
                items.extend(map(_to_item, records))
        return items

    def consume(self, topic: str, group: str, count: str, path: str) -> str:
        consumer = self._consumer(group)
        consumer.subscribe([topic])
        items = self._poll(consumer, int(count))
        consumer.commit()
        consumer.close()
        steps.write_items(path, items)
        return str(len(items))

    def _assign(self, consumer: KafkaConsumer, topic: str) -> list[TopicPartition]:
        numbers = sorted(consumer.partitions_for_topic(topic))
        partitions = [TopicPartition(topic, number) for number in numbers]
        consumer.assign(partitions)
        return partitions

    def read(self, topic: str, count: str, path: str) -> str:
        consumer = self._consumer(None)
        consumer.seek_to_beginning(*self._assign(consumer, topic))
        items = self._poll(consumer, int(count))
        consumer.close()
        steps.write_items(path, items)
        return str(len(items))

    def seek(self, topic: str, timestamp: str, path: str) -> str:
        consumer = self._consumer(f"seeker-{uuid.uuid4()}")
        partitions = self._assign(consumer, topic)
        found = consumer.offsets_for_times({p: int(timestamp) for p in partitions})
        ends = consumer.end_offsets(partitions)
        starts = {p: found[p].offset if found.get(p) else ends[p] for p in partitions}
        for partition, start in starts.items():
            consumer.seek(partition, start)
        items = self._poll(consumer, sum(ends.values()) - sum(starts.values()))
        consumer.close()
        steps.write_items(path, items)
        return steps.pairs_text((p.partition, start) for p, start in starts.items())

    def offsets(self, topic: str) -> str:
        consumer = self._consumer(None)
        partitions = self._assign(consumer, topic)
        low, high = consumer.beginning_offsets(partitions), consumer.end_offsets(partitions)
        consumer.close()
        return steps.pairs_text((p.partition, f"{low[p]}:{high[p]}") for p in partitions)

    def committed(self, group: str, topic: str) -> str:
        if _MAJOR >= 3:
            offsets = self.admin.list_group_offsets(group)
            offsets = offsets.get(group, offsets)
        else:
            offsets = self.admin.list_consumer_group_offsets(group)
        return steps.pairs_text(
            (p.partition, value.offset) for p, value in offsets.items() if p.topic == topic
        )

    def config(self, topic: str, key: str) -> str:
        resource = ConfigResource(ConfigResourceType.TOPIC, topic)
        answer = self.admin.describe_configs([resource])
        if _MAJOR >= 3:
            return str(_find_config(answer, key))
        for response in answer:
            for entry in response.resources[0][4]:
                if entry[0] == key:
                    return str(entry[1])
        raise KeyError(key)

    def alter_config(self, topic: str, key: str, value: str) -> None:
        resource = ConfigResource(ConfigResourceType.TOPIC, topic, configs={key: value})
        self.admin.alter_configs([resource])

    def topics(self) -> str:
        names = self.admin.list_topics()
        return ",".join(sorted(n if isinstance(n, str) else n["name"] for n in names))

    def groups(self) -> str:
        if _MAJOR >= 3:
            return ",".join(sorted(group["group_id"] for group in self.admin.list_groups()))
        return ",".join(sorted(group[0] for group in self.admin.list_consumer_groups()))

    def delete(self, topic: str) -> None:
        self.admin.delete_topics([topic])

    def delete_group(self, group: str) -> None:
        if _MAJOR >= 3:
            self.admin.delete_groups([group])
        else:
            self.admin.delete_consumer_groups([group])


def _find_config(answer: Any, key: str) -> Any:
    """The value of `key` somewhere in the nested answer of kafka-python 3."""
    if isinstance(answer, dict):
        if key in answer:
            found = answer[key]
            return found.get("value") if isinstance(found, dict) else found
        if answer.get("name") == key:
            return answer.get("value")
        answer = list(answer.values())
    if isinstance(answer, (list, tuple)):
        for part in answer:
            found = _find_config(part, key)
            if found is not None:
                return found
    return None


if __name__ == "__main__":
    steps.main(KafkaPythonClient)
