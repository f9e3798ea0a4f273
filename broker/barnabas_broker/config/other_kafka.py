"""What a setting of another Kafka is for, and what Barnabas has in its place.

For files that come with their owner from Apache Kafka: names that only releases with ZooKeeper had,
those of Kafka's older message formats, and those that came after Kafka 4.1. Not here: settings of
Kafka 4.1 that change nothing (`ignored_settings`).
"""

from __future__ import annotations

from typing import Final

_TIERED: Final = "it is of tiered storage, which there is not; leave it out"
_THREADS: Final = "a coordinator has neither threads nor buffers to be sized here; leave it out"
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
    (
        "config.providers",
        "values are taken as they are written; name files where a setting has one, or write the"
        " values into this file",
    ),
    ("controller.quorum.", "there is no controller quorum; leave it out"),
    ("cordoned.log.dirs", "log directories cannot be closed to new replicas here; leave it out"),
    ("follower.fetch.last.tiered.offset.enable", _TIERED),
    ("group.coordinator.", _THREADS),
    ("group.streams.", "it is of streams groups, which are not served; leave it out"),
    ("log.remote.", _TIERED),
    (
        "max.decompressed.message.bytes",
        "what a batch may decompress to has a bound of its own; leave it out",
    ),
    ("remote.", _TIERED),
    (
        "sasl.oauthbearer.allow.unverified.",
        "issuer and audience of tokens are always verified; leave it out",
    ),
    ("share.coordinator.cached.buffer.max.bytes", _THREADS),
)


def of_other_kafka(key: str) -> str:
    """What to do about a setting that another Kafka has; empty where none is known."""
    for name, explanation in _EXPLAINED:
        if key == name or ((name.endswith(".") or name == "broker.id") and key.startswith(name)):
            return explanation
    return ""
