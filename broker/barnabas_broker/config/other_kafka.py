"""What a setting of another Kafka is for, and what Barnabas has in its place.

For files that come with their owner from Apache Kafka: names that only releases with ZooKeeper had,
and those of Kafka's older message formats. Not here: settings that Kafka 4 has and that change
nothing here (`ignored_settings`).
"""

from __future__ import annotations

from typing import Final

_EXPLAINED: Final = (
    (
        "zookeeper.",
        "it is of Kafka with ZooKeeper, which Barnabas does not need: brokers agree by the arbiter"
        " (arbiter.backend: file, etcd or kubernetes); leave it out",
    ),
    (
        "broker.id.generation.enable",
        "it is of Kafka with ZooKeeper: a broker's number is given as node.id, never generated",
    ),
    (
        "control.plane.listener.name",
        "it is of Kafka with ZooKeeper: brokers talk on the listener REPLICATION, or the one that"
        " inter.broker.listener.name names",
    ),
    (
        "inter.broker.protocol.version",
        "it is of Kafka with ZooKeeper: levels are features of the cluster ('barnabas cluster"
        " features')",
    ),
    (
        "log.message.format.version",
        "it is of Kafka before 4: record batches are of version 2 always; leave it out",
    ),
    (
        "port",
        "it is of Kafka before 3: name the address in listeners, as PLAINTEXT://host:9092",
    ),
    (
        "host.name",
        "it is of Kafka before 3: name the address in listeners, as PLAINTEXT://host:9092",
    ),
)


def of_other_kafka(key: str) -> str:
    """What to do about a setting that another Kafka has; empty where none is known."""
    for name, explanation in _EXPLAINED:
        if key == name or ((name.endswith(".") or name == "broker.id") and key.startswith(name)):
            return explanation
    return ""
