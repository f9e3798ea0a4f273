"""The settings of several brokers together: liveness, leadership, replication, control plane.

Rows as in `broker_settings`. Names, types and defaults are Apache Kafka 4.1's; a default that
differs says why. The keys of the last group are known to Barnabas alone.
"""

from __future__ import annotations

from typing import Final

from barnabas_broker.config.definitions import (
    BOOLEAN,
    CLUSTER_WIDE,
    INT,
    LIST,
    LONG,
    LONG_MAX,
    PER_BROKER,
    STRING,
    BrokerSetting,
)

_S = BrokerSetting

LIVENESS: Final = (
    _S(
        "broker.heartbeat.interval.ms",
        INT,
        "1500",
        "Time between a broker's signs of life (Kafka: 2000; a fault is noticed sooner here).",
        1,
    ),
    _S(
        "broker.session.timeout.ms",
        INT,
        "6000",
        "A broker silent for this long is fenced (Kafka: 9000; a fault is noticed sooner here).",
        1,
    ),
    _S(
        "initial.broker.registration.timeout.ms",
        INT,
        "60000",
        "A broker that could not register for this long after its start gives up and exits.",
        1,
    ),
    _S(
        "server.max.startup.time.ms",
        LONG,
        str(LONG_MAX),
        "A broker that does not serve this long after its start stops and exits, whatever it waits "
        "for; work of the disk that has begun is waited for.",
        0,
    ),
    _S(
        "controlled.shutdown.enable",
        BOOLEAN,
        "true",
        "Whether a broker that is told to stop gives its leaderships away first.",
    ),
    _S(
        "inter.broker.listener.name",
        STRING,
        None,
        "The listener that brokers use among themselves, and no client may; unset, or where there "
        "is one listener only, means REPLICATION, which is added on the loopback address if "
        "`listeners` has none and the arbiter is a file.",
    ),
    _S(
        "security.inter.broker.protocol",
        STRING,
        "PLAINTEXT",
        "The listener of this name is the brokers' own, as inter.broker.listener.name would say; "
        "the protocol of REPLICATION where `listener.security.protocol.map` has none.",
        choices=("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"),
    ),
    _S("request.timeout.ms", INT, "30000", "How long a request to the controller is tried.", 1),
)

LEADERSHIP: Final = (
    _S(
        "auto.leader.rebalance.enable",
        BOOLEAN,
        "true",
        "Whether leadership is moved back to preferred replicas from time to time.",
    ),
    _S(
        "leader.imbalance.check.interval.seconds",
        LONG,
        "300",
        "Time between two looks for partitions that their preferred replica does not lead.",
        1,
    ),
    _S(
        "unclean.leader.election.enable",
        BOOLEAN,
        "false",
        "Default of the topic setting of the same name.",
        update=CLUSTER_WIDE,
    ),
)

REPLICATION: Final = (
    _S(
        "num.replica.fetchers",
        INT,
        "1",
        "Connections by which a broker follows each other broker.",
        update=CLUSTER_WIDE,
    ),
    _S(
        "replica.fetch.backoff.ms",
        INT,
        "1000",
        "How long a follower leaves a partition alone whose fetching failed.",
        0,
    ),
    _S("replica.fetch.max.bytes", INT, "1048576", "Bytes of one partition in one fetch.", 0),
    _S("replica.fetch.min.bytes", INT, "1", "Bytes that a follower waits for."),
    _S("replica.fetch.response.max.bytes", INT, "10485760", "Bytes of one fetch, about.", 0),
    _S("replica.fetch.wait.max.ms", INT, "500", "How long a follower waits for new records."),
    _S(
        "replica.lag.time.max.ms",
        LONG,
        "30000",
        "A follower that was not caught up for this long leaves the ISR.",
    ),
    _S("replica.socket.timeout.ms", INT, "30000", "How long a follower waits for an answer."),
    _S(
        "replica.selector.class",
        STRING,
        None,
        "RackAwareReplicaSelector, with or without Kafka's package name, lets consumers read from "
        "a follower in their rack; unset means from the leader.",
        choices=(
            "RackAwareReplicaSelector",
            "org.apache.kafka.common.replica.RackAwareReplicaSelector",
        ),
    ),
    _S(
        "leader.replication.throttled.rate",
        LONG,
        "9223372036854775807",
        "Bytes a second that leaders send to throttled replicas that are not in sync.",
        0,
        update=PER_BROKER,
    ),
    _S(
        "follower.replication.throttled.rate",
        LONG,
        "9223372036854775807",
        "Bytes a second that throttled replicas that are not in sync fetch.",
        0,
        update=PER_BROKER,
    ),
)

CONTROL_PLANE: Final = (
    _S(
        "broker.fence.on.refused.ms",
        INT,
        "500",
        "A broker whose address refuses connections for this long is gone: it is fenced, and where "
        "it led the control plane another takes over.",
        1,
    ),
    _S(
        "controller.quorum.lost.ms",
        INT,
        "4000",
        "A controller that hears no majority of the metadata log's members for this long resigns.",
        1,
    ),
    _S(
        "arbiter.time.to.live.ms",
        INT,
        "6000",
        "The arbiter's record, when nobody renewed it for this long, may be taken over.",
        1,
    ),
    _S("metadata.members", INT, "3", "Brokers that hold the metadata log as members.", 1),
    _S(
        "metadata.min.members",
        INT,
        "2",
        "Dead members are dropped down to this many, or to all there are in a smaller cluster.",
        1,
    ),
    _S(
        "metadata.member.leaving",
        BOOLEAN,
        "false",
        "The broker is to go for good: it leaves the members of the metadata log while it runs, "
        "after it has handed the control plane over, and does not become one again.",
        update=PER_BROKER,
    ),
    _S(
        "metadata.member.lost.ms",
        LONG,
        "60000",
        "A member that has not fetched the metadata log for this long is replaced or dropped.",
        1,
    ),
    _S(
        "barnabas.drain.budget.ms",
        LONG,
        "100000",
        "The longest time that a controlled shutdown waits for leaderships to move.",
        0,
    ),
)

IDENTITY: Final = (
    _S(
        "barnabas.broker.principals",
        STRING,
        "",
        "Principals of brokers, separated by semicolons; `{id}` stands for the node id, as in "
        "`User:CN=broker-{id}`, and lets its holder speak for that broker alone. One without it "
        "may speak for every broker. Empty: without an authorizer whoever reaches the brokers' "
        "listener is a broker, with one nobody is.",
    ),
    _S(
        "barnabas.broker.users.file",
        STRING,
        None,
        "Where the brokers' listener has SASL: lines of the form `name=password`, a user for each "
        "broker of barnabas.broker.principals; they log in by SCRAM, and by this file alone.",
    ),
    _S(
        "barnabas.other.broker.listeners",
        LIST,
        "",
        "Listeners on which other brokers are taken besides the one of inter.broker.listener.name: "
        "while brokers change from one to the other, one after the other.",
    ),
    _S(
        "barnabas.port.unification.listeners",
        LIST,
        "",
        "Listeners with TLS at whose port clients without TLS are served, too, as ANONYMOUS: while "
        "clients change, where there is only one port for them.",
    ),
)

CLUSTER: Final = (*LIVENESS, *LEADERSHIP, *REPLICATION, *CONTROL_PLANE, *IDENTITY)
