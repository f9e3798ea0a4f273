"""The brokers and clusters of the interop tests, of Barnabas and of Apache Kafka."""

from pathlib import Path

from tests.support.apache_kafka import ApacheKafka
from tests.support.barnabas_cluster import BarnabasCluster
from tests.support.barnabas_process import BarnabasProcess
from tests.support.kafka_cluster import KafkaCluster

AnyBroker = ApacheKafka | BarnabasProcess
AnyCluster = KafkaCluster | BarnabasCluster
# Room for what the suites do: auto-created topics of four partitions, offsets spread over few.
PROPERTIES = {
    "num.partitions": "4",
    "auto.create.topics.enable": "true",
    "offsets.topic.num.partitions": "10",
}
# What `KafkaCluster` sets beside what both set.
LIKE_APACHE = {
    "replica.selector.class": "org.apache.kafka.common.replica.RackAwareReplicaSelector",
    "auto.leader.rebalance.enable": "false",
}


def start_broker(kind: str, directory: Path, properties: dict[str, str]) -> AnyBroker:
    """A running broker of that kind."""
    broker: AnyBroker
    if kind == "apache":
        broker = ApacheKafka(directory, properties=properties)
    elif kind == "barnabas":
        broker = BarnabasProcess(directory, properties=properties)
    else:
        raise ValueError(f"BARNABAS_INTEROP_BROKER is {kind!r}, not barnabas or apache")
    broker.start()
    return broker
