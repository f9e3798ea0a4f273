"""The table of broker settings that take effect: one row each, grouped by what they govern.

Names, types, ranges and defaults are Apache Kafka 4.1's; a default that differs says why. The keys
that only Barnabas knows are in the last groups. Those of the logs are in `log_settings`, of the
arbiter in `arbiter_settings`, those that are accepted without an effect in `ignored_settings`.
"""

from __future__ import annotations

from typing import Final

from barnabas_broker.config.admin_settings import ADMIN
from barnabas_broker.config.arbiter_settings import ARBITER
from barnabas_broker.config.audit_settings import AUDIT
from barnabas_broker.config.authorizer_settings import AUTHORIZER
from barnabas_broker.config.cluster_settings import CLUSTER
from barnabas_broker.config.consumer_group_settings import CONSUMER_GROUP_SETTINGS
from barnabas_broker.config.definitions import (
    BOOLEAN,
    CLUSTER_WIDE,
    INT,
    LONG,
    PER_BROKER,
    SHORT,
    STRING,
    BrokerSetting,
)
from barnabas_broker.config.log_settings import CLEANER, LOG
from barnabas_broker.config.sasl_settings import CREDENTIALS
from barnabas_broker.config.share_coordinator_settings import SHARE_COORDINATOR_SETTINGS
from barnabas_broker.config.share_group_settings import SHARE_GROUP_SETTINGS
from barnabas_broker.config.tls_settings import HANDSHAKES

_S = BrokerSetting

IDENTITY: Final = (
    _S("node.id", INT, "-1", "The node's number; -1 takes it from the log directories.", -1),
    _S("broker.id", INT, "-1", "The older name of node.id.", -1),
    _S("broker.rack", STRING, None, "The failure zone of this broker, for replica placement."),
    _S(
        "cluster.id",
        STRING,
        None,
        "The cluster this broker belongs to; unset takes it from the log directories.",
    ),
)

NETWORK: Final = (
    _S(
        "listeners",
        STRING,
        "PLAINTEXT://:9092",
        "Addresses to accept connections on, as NAME://host:port.",
        update=PER_BROKER,
    ),
    _S(
        "advertised.listeners",
        STRING,
        None,
        "Addresses told to clients; unset means the listeners themselves, and for a listener "
        "without a host the canonical name of this machine.",
    ),
    _S(
        "listener.security.protocol.map",
        STRING,
        "SASL_SSL:SASL_SSL,PLAINTEXT:PLAINTEXT,SSL:SSL,SASL_PLAINTEXT:SASL_PLAINTEXT",
        "The security protocol of each listener name.",
        update=PER_BROKER,
    ),
    _S(
        "controller.listener.names",
        STRING,
        None,
        "Listeners of these names are skipped: the control plane has none of its own here.",
    ),
    _S(
        "socket.listen.backlog.size",
        INT,
        "1024",
        "Connections waiting to be accepted (Kafka: 50, which a burst of connections overflows).",
        1,
    ),
    _S("socket.send.buffer.bytes", INT, "102400", "Send buffer; -1 leaves it to the system."),
    _S("socket.receive.buffer.bytes", INT, "102400", "Receive buffer; -1 leaves it to the system."),
    _S("socket.request.max.bytes", INT, "104857600", "The largest request accepted.", 1),
    _S(
        "queued.max.request.bytes",
        LONG,
        "134217728",
        "Bytes of requests in work before reading pauses (Kafka: no limit; bounded here).",
    ),
    _S("connections.max.idle.ms", LONG, "600000", "Close a connection silent for this long."),
    _S(
        "max.connections",
        INT,
        "2147483647",
        "Connections to this broker at one time.",
        0,
        update=CLUSTER_WIDE,
    ),
    _S(
        "max.connection.creation.rate",
        INT,
        "2147483647",
        "New connections of clients in a second; those beyond are cut, up to a second later.",
        0,
        update=CLUSTER_WIDE,
    ),
    _S(
        "max.connections.per.ip",
        INT,
        "2147483647",
        "Connections from one address at one time.",
        0,
        update=CLUSTER_WIDE,
    ),
    _S(
        "max.connections.per.ip.overrides",
        STRING,
        "",
        "Other limits for single addresses or host names: host:count,host:count.",
        update=CLUSTER_WIDE,
    ),
    _S(
        "max.incremental.fetch.session.cache.slots",
        INT,
        "1000",
        "Fetch sessions kept; a client without one sends all its partitions each time.",
        0,
    ),
    _S("fetch.max.bytes", INT, "57671680", "The most bytes that one fetch may return.", 1024),
)

TOPICS: Final = (
    _S("num.partitions", INT, "1", "Partitions of a topic that is created without a count.", 1),
    _S(
        "default.replication.factor",
        INT,
        "1",
        "Replicas of a partition of a topic that is created without a factor.",
    ),
    _S(
        "auto.create.topics.enable",
        BOOLEAN,
        "true",
        "Create a topic when a client asks for the metadata of one that is missing.",
    ),
    _S("delete.topic.enable", BOOLEAN, "true", "Whether topics may be deleted."),
    _S(
        "max.request.partition.size.limit",
        INT,
        "2000",
        "Partitions in one answer of DescribeTopicPartitions.",
        1,
    ),
)

GROUPS: Final = (
    _S(
        "group.initial.rebalance.delay.ms",
        INT,
        "3000",
        "How long the first rebalance of an empty group waits for more members.",
    ),
    _S("group.min.session.timeout.ms", INT, "6000", "The shortest session timeout of a member."),
    _S("group.max.session.timeout.ms", INT, "1800000", "The longest session timeout of a member."),
    _S("group.max.size", INT, "2147483647", "Members of one group.", 1),
    _S("offset.metadata.max.bytes", INT, "4096", "The longest note on a committed offset."),
    _S(
        "offsets.commit.timeout.ms",
        INT,
        "5000",
        "How long a commit may wait until its record is replicated.",
        1,
    ),
    _S("offsets.load.buffer.size", INT, "5242880", "Bytes read at once when offsets load.", 1),
    _S(
        "offsets.retention.minutes",
        INT,
        "10080",
        "How long the offsets of an empty group are kept.",
        1,
    ),
    _S(
        "offsets.retention.check.interval.ms",
        LONG,
        "600000",
        "How often expired offsets are looked for.",
        1,
    ),
    _S("offsets.topic.num.partitions", INT, "50", "Partitions of __consumer_offsets.", 1),
    _S("offsets.topic.replication.factor", SHORT, "3", "Replicas of __consumer_offsets.", 1),
    _S(
        "offsets.topic.segment.bytes",
        INT,
        "104857600",
        "segment.bytes of __consumer_offsets.",
        1048576,
    ),
    _S(
        "offsets.topic.compression.codec",
        INT,
        "0",
        "Codec of the batches in __consumer_offsets, by its number in batches: 0 for none, 1 gzip, "
        "2 snappy, 3 lz4, 4 zstd.",
        0,
        4,
    ),
)

PRODUCERS: Final = (
    _S(
        "producer.id.expiration.ms",
        INT,
        "86400000",
        "How long the state of an idle idempotent producer is kept.",
        1,
        update=CLUSTER_WIDE,
    ),
    _S(
        "producer.id.expiration.check.interval.ms",
        INT,
        "600000",
        "How often the state of idle producers is looked for. For tests, as in Kafka.",
        1,
    ),
)

TRANSACTIONS: Final = (
    _S(
        "transaction.max.timeout.ms",
        INT,
        "900000",
        "The longest time that a producer may ask for its transactions.",
        1,
    ),
    _S(
        "transaction.abort.timed.out.transaction.cleanup.interval.ms",
        INT,
        "10000",
        "How often transactions that are open for too long are looked for.",
        1,
    ),
    _S(
        "transaction.remove.expired.transaction.cleanup.interval.ms",
        INT,
        "3600000",
        "How often transactional ids that nobody uses are looked for.",
        1,
    ),
    _S(
        "transactional.id.expiration.ms",
        INT,
        "604800000",
        "A transactional id that nobody has used for so long is forgotten.",
        1,
    ),
    _S(
        "transaction.partition.verification.enable",
        BOOLEAN,
        "true",
        "Whether a leader asks the coordinator before a producer's first write in a transaction.",
        update=CLUSTER_WIDE,
    ),
    _S(
        "add.partitions.to.txn.retry.backoff.ms",
        INT,
        "20",
        "After how long a leader asks again while the transaction before is ending.",
        1,
    ),
    _S(
        "add.partitions.to.txn.retry.backoff.max.ms",
        INT,
        "100",
        "For how long in all a leader asks again while the transaction before is ending.",
        0,
    ),
    _S(
        "transaction.state.log.load.buffer.size",
        INT,
        "5242880",
        "Bytes read at once when transactional ids load.",
        1,
    ),
    _S(
        "transaction.state.log.min.isr",
        INT,
        "2",
        "min.insync.replicas of __transaction_state.",
        1,
    ),
    _S(
        "transaction.state.log.num.partitions",
        INT,
        "50",
        "Partitions of __transaction_state.",
        1,
    ),
    _S(
        "transaction.state.log.replication.factor",
        SHORT,
        "3",
        "Replicas of __transaction_state.",
        1,
    ),
    _S(
        "transaction.state.log.segment.bytes",
        INT,
        "104857600",
        "segment.bytes of __transaction_state.",
        1048576,
    ),
)

METADATA: Final = (
    _S(
        "metadata.log.dir",
        STRING,
        None,
        "The log directory of the metadata log; unset means the first of log.dirs.",
    ),
    _S("metadata.log.segment.bytes", INT, "1073741824", "Segment size there.", 8388608),
    _S(
        "metadata.log.max.record.bytes.between.snapshots",
        LONG,
        "20971520",
        "Bytes of records after which a snapshot of the metadata is written.",
        1,
    ),
)

OWN: Final = (
    _S(
        "barnabas.flush.policy",
        STRING,
        "page-cache",
        "Default of the topic setting of the same name.",
        choices=("page-cache", "group-fsync"),
        update=CLUSTER_WIDE,
    ),
    _S(
        "barnabas.flush.bytes",
        LONG,
        "67108864",
        "A log with more unflushed bytes is flushed in the background: bounds recovery.",
        1,
    ),
    _S(
        "barnabas.tail.cache.bytes",
        LONG,
        "67108864",
        "Memory for the batches just appended, which readers at the end take from there.",
        0,
    ),
    _S(
        "barnabas.max.requests.per.connection",
        INT,
        "64",
        "Requests of one connection in work before its reading pauses.",
        1,
    ),
    _S("telemetry.max.bytes", INT, "1048576", "The largest push of a client's metrics.", 1),
    _S(
        "barnabas.client.metrics.series.max",
        INT,
        "10000",
        "Series of clients' metrics that /metrics shows at most; 0 for none.",
        0,
    ),
)

BROKER_SETTINGS: Final = (
    *IDENTITY,
    *NETWORK,
    *TOPICS,
    *LOG,
    *CLEANER,
    *GROUPS,
    *CONSUMER_GROUP_SETTINGS,
    *SHARE_GROUP_SETTINGS,
    *PRODUCERS,
    *TRANSACTIONS,
    *SHARE_COORDINATOR_SETTINGS,
    *METADATA,
    *OWN,
    *ADMIN,
    *CLUSTER,
    *ARBITER,
    *AUTHORIZER,
    *AUDIT,
    *HANDSHAKES,
    *CREDENTIALS,
)
