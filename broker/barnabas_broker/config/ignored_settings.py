"""Settings that Kafka 4.1 knows and this broker accepts without an effect, by the reason why.

A file that was written for Kafka thus starts here unchanged, and DescribeConfigs reports what it
reports there. Where ignoring a setting could do harm, any value but its default is refused.
"""

from __future__ import annotations

from typing import Final

from barnabas_broker.config.definitions import (
    BOOLEAN,
    CLASS,
    CLUSTER_WIDE,
    DEFAULT_ONLY,
    DOUBLE,
    IGNORED,
    INT,
    LIST,
    LONG,
    LONG_MAX,
    READ_ONLY,
    STRING,
    BrokerSetting,
    IgnoredRow,
)
from barnabas_broker.config.ignored_security_settings import JAVA_SECURITY, SECURITY

CLUSTER: Final[tuple[IgnoredRow, ...]] = (
    ("alter.log.dirs.replication.quota.window.num", INT, "11", 1, None, READ_ONLY),
    ("alter.log.dirs.replication.quota.window.size.seconds", INT, "1", 1, None, READ_ONLY),
    ("controller.quota.window.num", INT, "11", 1, None, READ_ONLY),
    ("controller.quota.window.size.seconds", INT, "1", 1, None, READ_ONLY),
    ("controller.socket.timeout.ms", INT, "30000", None, None, READ_ONLY),
    ("log.dir.failure.timeout.ms", LONG, "30000", 1, None, READ_ONLY),
    ("quota.window.num", INT, "11", 1, None, READ_ONLY),
    ("quota.window.size.seconds", INT, "1", 1, None, READ_ONLY),
    ("replica.socket.receive.buffer.bytes", INT, "65536", None, None, READ_ONLY),
    ("replication.quota.window.num", INT, "11", 1, None, READ_ONLY),
    ("replication.quota.window.size.seconds", INT, "1", 1, None, READ_ONLY),
    ("socket.connection.setup.timeout.max.ms", LONG, "30000", None, None, READ_ONLY),
    ("socket.connection.setup.timeout.ms", LONG, "10000", None, None, READ_ONLY),
)

METRICS: Final[tuple[IgnoredRow, ...]] = (
    ("kafka.metrics.polling.interval.secs", INT, "10", 1, None, READ_ONLY),
    ("kafka.metrics.reporters", LIST, "", None, None, READ_ONLY),
    (
        "metric.reporters",
        LIST,
        "org.apache.kafka.common.metrics.JmxReporter",
        None,
        None,
        CLUSTER_WIDE,
    ),
    ("metrics.num.samples", INT, "2", 1, None, READ_ONLY),
    ("metrics.recording.level", STRING, "INFO", None, None, READ_ONLY),
    ("metrics.sample.window.ms", LONG, "30000", 1, None, READ_ONLY),
)

NEW_GROUPS: Final[tuple[IgnoredRow, ...]] = (
    (
        "group.coordinator.rebalance.protocols",
        LIST,
        "classic,consumer,streams",
        None,
        None,
        READ_ONLY,
    ),
)

OTHER: Final[tuple[IgnoredRow, ...]] = (
    ("group.coordinator.append.linger.ms", INT, "5", 0, None, READ_ONLY),
    ("log.local.retention.bytes", LONG, "-2", -2, None, CLUSTER_WIDE),
    ("log.local.retention.ms", LONG, "-2", -2, None, CLUSTER_WIDE),
)

PLUGINS: Final[tuple[IgnoredRow, ...]] = (
    ("alter.config.policy.class.name", CLASS, None, None, None, READ_ONLY),
    ("client.quota.callback.class", CLASS, None, None, None, READ_ONLY),
    ("create.topic.policy.class.name", CLASS, None, None, None, READ_ONLY),
    ("early.start.listeners", STRING, None, None, None, READ_ONLY),
)

PURGATORY: Final[tuple[IgnoredRow, ...]] = (
    ("delete.records.purgatory.purge.interval.requests", INT, "1", None, None, READ_ONLY),
    ("fetch.purgatory.purge.interval.requests", INT, "1000", None, None, READ_ONLY),
    ("producer.purgatory.purge.interval.requests", INT, "1000", None, None, READ_ONLY),
)

QUEUE: Final[tuple[IgnoredRow, ...]] = (("queued.max.requests", INT, "500", 1, None, READ_ONLY),)

QUORUM: Final[tuple[IgnoredRow, ...]] = (
    ("controller.quorum.append.linger.ms", INT, "25", 0, None, READ_ONLY),
    ("controller.quorum.bootstrap.servers", LIST, "", None, None, READ_ONLY),
    ("controller.quorum.election.backoff.max.ms", INT, "1000", 0, None, READ_ONLY),
    ("controller.quorum.election.timeout.ms", INT, "1000", 0, None, READ_ONLY),
    ("controller.quorum.fetch.timeout.ms", INT, "2000", 0, None, READ_ONLY),
    ("controller.quorum.request.timeout.ms", INT, "2000", 0, None, READ_ONLY),
    ("controller.quorum.retry.backoff.ms", INT, "20", 0, None, READ_ONLY),
    ("controller.quorum.voters", LIST, "", None, None, READ_ONLY),
    ("metadata.log.max.snapshot.interval.ms", LONG, "3600000", 0, None, READ_ONLY),
    ("metadata.log.segment.ms", LONG, "604800000", None, None, READ_ONLY),
    ("metadata.max.idle.interval.ms", INT, "500", 0, None, READ_ONLY),
    ("metadata.max.retention.bytes", LONG, "104857600", None, None, READ_ONLY),
    ("metadata.max.retention.ms", LONG, "604800000", None, None, READ_ONLY),
    ("process.roles", LIST, None, None, None, READ_ONLY),
)

REMOTE: Final[tuple[IgnoredRow, ...]] = (
    ("remote.fetch.max.wait.ms", INT, "500", 1, None, CLUSTER_WIDE),
    ("remote.list.offsets.request.timeout.ms", LONG, "30000", 1, None, CLUSTER_WIDE),
    ("remote.log.index.file.cache.total.size.bytes", LONG, "1073741824", 1, None, CLUSTER_WIDE),
    ("remote.log.manager.copier.thread.pool.size", INT, "10", 1, None, CLUSTER_WIDE),
    ("remote.log.manager.copy.max.bytes.per.second", LONG, str(LONG_MAX), 1, None, CLUSTER_WIDE),
    ("remote.log.manager.copy.quota.window.num", INT, "11", 1, None, READ_ONLY),
    ("remote.log.manager.copy.quota.window.size.seconds", INT, "1", 1, None, READ_ONLY),
    ("remote.log.manager.expiration.thread.pool.size", INT, "10", 1, None, CLUSTER_WIDE),
    ("remote.log.manager.fetch.max.bytes.per.second", LONG, str(LONG_MAX), 1, None, CLUSTER_WIDE),
    ("remote.log.manager.fetch.quota.window.num", INT, "11", 1, None, READ_ONLY),
    ("remote.log.manager.fetch.quota.window.size.seconds", INT, "1", 1, None, READ_ONLY),
    ("remote.log.manager.task.interval.ms", LONG, "30000", 1, None, READ_ONLY),
    ("remote.log.manager.thread.pool.size", INT, "2", 1, None, READ_ONLY),
    ("remote.log.metadata.custom.metadata.max.bytes", INT, "128", 0, None, READ_ONLY),
    (
        "remote.log.metadata.manager.class.name",
        STRING,
        "org.apache.kafka.server.log.remote.metadata.storage.TopicBasedRemoteLogMetadataManager",
        None,
        None,
        READ_ONLY,
    ),
    ("remote.log.metadata.manager.class.path", STRING, None, None, None, READ_ONLY),
    ("remote.log.metadata.manager.impl.prefix", STRING, "rlmm.config.", None, None, READ_ONLY),
    ("remote.log.metadata.manager.listener.name", STRING, None, None, None, READ_ONLY),
    ("remote.log.reader.max.pending.tasks", INT, "100", 1, None, READ_ONLY),
    ("remote.log.reader.threads", INT, "10", 1, None, CLUSTER_WIDE),
    ("remote.log.storage.manager.class.name", STRING, None, None, None, READ_ONLY),
    ("remote.log.storage.manager.class.path", STRING, None, None, None, READ_ONLY),
    ("remote.log.storage.manager.impl.prefix", STRING, "rsm.config.", None, None, READ_ONLY),
    ("remote.log.storage.system.enable", BOOLEAN, "false", None, None, READ_ONLY),
)

SHARE_AND_STREAMS: Final[tuple[IgnoredRow, ...]] = (
    ("group.streams.heartbeat.interval.ms", INT, "5000", 1, None, READ_ONLY),
    ("group.streams.max.heartbeat.interval.ms", INT, "15000", 1, None, READ_ONLY),
    ("group.streams.max.session.timeout.ms", INT, "60000", 1, None, READ_ONLY),
    ("group.streams.max.size", INT, "2147483647", 1, None, READ_ONLY),
    ("group.streams.max.standby.replicas", INT, "2", 0, None, READ_ONLY),
    ("group.streams.min.heartbeat.interval.ms", INT, "5000", 1, None, READ_ONLY),
    ("group.streams.min.session.timeout.ms", INT, "45000", 1, None, READ_ONLY),
    ("group.streams.num.standby.replicas", INT, "0", 0, None, READ_ONLY),
    ("group.streams.session.timeout.ms", INT, "45000", 1, None, READ_ONLY),
    ("share.coordinator.append.linger.ms", INT, "5", 0, None, READ_ONLY),
    ("share.coordinator.threads", INT, "1", 1, None, READ_ONLY),
    ("share.fetch.purgatory.purge.interval.requests", INT, "1000", None, None, READ_ONLY),
)

THREADS: Final[tuple[IgnoredRow, ...]] = (
    ("background.threads", INT, "10", 1, None, CLUSTER_WIDE),
    ("group.coordinator.threads", INT, "4", 1, None, READ_ONLY),
    ("log.cleaner.io.buffer.load.factor", DOUBLE, "0.9", None, None, CLUSTER_WIDE),
    ("log.cleaner.io.buffer.size", INT, "524288", 0, None, CLUSTER_WIDE),
    ("log.cleaner.threads", INT, "1", 0, None, CLUSTER_WIDE),
    ("num.io.threads", INT, "8", 1, None, CLUSTER_WIDE),
    ("num.network.threads", INT, "3", 1, None, CLUSTER_WIDE),
    ("num.replica.alter.log.dirs.threads", INT, None, None, None, READ_ONLY),
)

TRANSACTIONS: Final[tuple[IgnoredRow, ...]] = (
    ("transaction.two.phase.commit.enable", BOOLEAN, "false", None, None, READ_ONLY),
)

# Each group of rows with the reason that the reference gives for all of them.
_GROUPS: Final = (
    (
        CLUSTER,
        "Quotas have samples of a second here; sockets between brokers are not limited that way.",
        IGNORED,
    ),
    (METRICS, "Metrics are served at /metrics of the admin HTTP server.", IGNORED),
    (
        NEW_GROUPS,
        "Which protocols are served is the matter of `group.version` and of the API versions.",
        IGNORED,
    ),
    (OTHER, "Has no counterpart in this broker.", IGNORED),
    (
        PLUGINS,
        "Java classes cannot be loaded; a policy that is silently left out could do harm.",
        DEFAULT_ONLY,
    ),
    (
        PURGATORY,
        "Completed requests leave the purgatory at once; there is nothing to purge.",
        IGNORED,
    ),
    (
        QUEUE,
        "What is in work is bounded for each connection and in bytes, not as a count of all.",
        IGNORED,
    ),
    (
        QUORUM,
        "There is no controller quorum: the arbiter says who leads the control plane.",
        IGNORED,
    ),
    (REMOTE, "Governs tiered storage, which this broker does not have.", IGNORED),
    (
        SECURITY,
        "Governs Kerberos, delegation tokens or Java's login classes, none of which is here.",
        IGNORED,
    ),
    (
        JAVA_SECURITY,
        "Belongs to Java's classes or stores; without it a listener would be another than meant.",
        DEFAULT_ONLY,
    ),
    (
        SHARE_AND_STREAMS,
        "Governs streams groups, which are not served, and threads of share groups.",
        IGNORED,
    ),
    (
        THREADS,
        "One event loop does the work: Java threads and buffers have no counterpart.",
        IGNORED,
    ),
    (TRANSACTIONS, "Governs two-phase commit, which is not served.", IGNORED),
)

IGNORED_SETTINGS: Final = tuple(
    BrokerSetting(key, kind, default, why, low, high, update=update, support=support)
    for rows, why, support in _GROUPS
    for key, kind, default, low, high, update in rows
)
