"""For each alert: series under which it fires, when, and when it does not yet.

Values are in promtool's words: `a+bxn` is a, then n more, each b larger; `a _x3 b` has a gap. One
value a minute.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

BROKER = 'namespace="shop",job="demo",instance="demo-0"'
CLUSTER = {"namespace": "shop", "job": "demo"}
INSTANCE = {**CLUSTER, "instance": "demo-0"}
DIRECTORY = {**INSTANCE, "directory": "/data"}
GROUP = {**CLUSTER, "group": "billing", "topic": "orders"}
OPERATOR = 'namespace="shop",job="barnabas-operator",instance="barnabas-operator-0"'
OPERATORS = {"namespace": "shop", "job": "barnabas-operator"}


def on(name: str, more: str = "", target: str = BROKER) -> str:
    """A series of a metric."""
    return f"{name}{{{target}{',' if more else ''}{more}}}"


@dataclass(frozen=True, slots=True, kw_only=True)
class AlertCase:
    """`fires_at` and `quiet_at` are minutes after the first value."""

    alert: str
    series: Mapping[str, str]
    quiet_at: int
    fires_at: int
    labels: Mapping[str, str]
    summary: str
    # Series under which the same alert must stay quiet at `fires_at`.
    quiet_series: Mapping[str, str] = field(default_factory=dict)


_GUARD = "barnabas_log_directory_guard"
_FREE, _TOTAL = "barnabas_log_directory_free_bytes", "barnabas_log_directory_total_bytes"
_LOST = on("barnabas_share_dead_letters_lost_total", 'group="queue"')
_SHARED = 'group="billing",topic="orders",partition="0"'
_BACKLOG = on("barnabas_share_backlog_records", _SHARED)
_LAG = on("barnabas_group_lag_records", 'group="billing",topic="orders",partition="0"')
_COMMITTED = on("barnabas_group_committed_offset", 'group="billing",topic="orders",partition="0"')

_CLIENTS, _SCRAM = 'listener="CLIENTS"', 'mechanism="SCRAM-SHA-512"'

CASES: Sequence[AlertCase] = (
    AlertCase(
        alert="BarnabasDeadLettersLost",
        # A counter begins with its first event: that is an increase, too.
        series={_LOST: "_x5 4x9"},
        quiet_at=4,
        fires_at=7,
        labels={**CLUSTER, "group": "queue"},
        summary="4 records of share group queue are archived without a dead letter",
    ),
    AlertCase(
        alert="BarnabasShareGroupHeld",
        series={on("barnabas_share_oldest_in_flight_seconds", _SHARED): "0+60x40"},
        quiet_at=20,
        fires_at=21,
        labels=GROUP,
        summary="Share group billing is held up by one record of orders for 21m 0s",
    ),
    AlertCase(
        alert="BarnabasShareGroupBacklogGrowing",
        series={_BACKLOG: "9000+100x90"},
        quiet_at=40,
        fires_at=60,
        labels=GROUP,
        summary="Share group billing falls behind on orders: 15k records",
    ),
    AlertCase(
        alert="BarnabasOfflinePartitions",
        series={on("barnabas_offline_partitions"): "0x4 3x9"},
        quiet_at=5,
        fires_at=7,
        labels=CLUSTER,
        summary="3 partitions of demo have no leader",
    ),
    AlertCase(
        alert="BarnabasUnderMinIsrPartitions",
        series={on("barnabas_under_min_isr_partitions"): "0x4 2x9"},
        quiet_at=5,
        fires_at=7,
        labels=CLUSTER,
        summary="2 partitions of demo refuse acks=all",
    ),
    AlertCase(
        alert="BarnabasUnderReplicatedPartitions",
        series={on("barnabas_under_replicated_partitions"): "0x4 2x20"},
        quiet_at=8,
        fires_at=11,
        labels=CLUSTER,
        summary="2 partitions of demo lack a replica",
    ),
    AlertCase(
        alert="BarnabasNoController",
        series={on("barnabas_controller_active"): "1x4 0x9"},
        quiet_at=5,
        fires_at=7,
        labels=CLUSTER,
        summary="demo has no active controller",
    ),
    AlertCase(
        alert="BarnabasTwoControllers",
        series={
            on("barnabas_controller_active"): "1x20",
            'barnabas_controller_active{namespace="shop",job="demo",instance="demo-1"}': "0x4 1x9",
        },
        quiet_at=5,
        fires_at=7,
        labels=CLUSTER,
        summary="2 brokers of demo take themselves for the controller",
    ),
    AlertCase(
        alert="BarnabasUncleanElection",
        series={on("barnabas_controller_unclean_elections_total"): "0x4 2x20"},
        quiet_at=4,
        fires_at=6,
        labels=CLUSTER,
        summary="demo has elected a leader that was not in sync",
    ),
    AlertCase(
        alert="BarnabasBrokerDown",
        series={
            on("up"): "1x4 0x20",
            on("barnabas_broker_state"): "3x4 stale",
        },
        quiet_at=6,
        fires_at=8,
        labels=INSTANCE,
        summary="Broker demo-0 of demo does not answer",
        # Something else that Prometheus scrapes.
        quiet_series={'up{namespace="shop",job="other",instance="a"}': "1x4 0x20"},
    ),
    AlertCase(
        alert="BarnabasBrokerFenced",
        series={on("barnabas_controller_fenced_brokers"): "0x4 1x20"},
        quiet_at=8,
        fires_at=11,
        labels=CLUSTER,
        summary="1 brokers of demo are fenced",
    ),
    AlertCase(
        alert="BarnabasLogDirectoryOffline",
        series={on("barnabas_log_directory_online", 'directory="/data"'): "1x4 0x9"},
        quiet_at=5,
        fires_at=7,
        labels=DIRECTORY,
        summary="/data of broker demo-0 has failed",
    ),
    AlertCase(
        alert="BarnabasDiskFilling",
        series={
            on(_FREE, 'directory="/data"'): "250-1x200",
            on(_TOTAL, 'directory="/data"'): "1000x200",
        },
        quiet_at=10,
        fires_at=60,
        labels=DIRECTORY,
        summary="/data of broker demo-0 is full within six hours",
        quiet_series={
            on(_FREE, 'directory="/data"'): "800-1x200",
            on(_TOTAL, 'directory="/data"'): "1000x200",
        },
    ),
    AlertCase(
        alert="BarnabasDiskAlmostFull",
        series={on(_GUARD, 'directory="/data"'): "0x4 1x20"},
        quiet_at=8,
        fires_at=11,
        labels=DIRECTORY,
        summary="/data of broker demo-0 is almost full",
        quiet_series={on(_GUARD, 'directory="/data"'): "2x20"},
    ),
    AlertCase(
        alert="BarnabasDiskFull",
        series={on(_GUARD, 'directory="/data"'): "1x4 3x20"},
        quiet_at=5,
        fires_at=7,
        labels=DIRECTORY,
        summary="/data of broker demo-0 is full",
    ),
    AlertCase(
        alert="BarnabasComparingPartitions",
        series={on("barnabas_controller_comparing_partitions"): "0x4 2x20"},
        quiet_at=5,
        fires_at=7,
        labels=CLUSTER,
        summary="2 partitions of demo wait for a comparison of logs",
    ),
    AlertCase(
        alert="BarnabasRequestFailures",
        series={on("barnabas_request_failures_total", 'api="PRODUCE"'): "0x10 0+60x30"},
        quiet_at=12,
        fires_at=25,
        labels={**CLUSTER, "api": "PRODUCE"},
        summary="demo fails PRODUCE requests",
        quiet_series={on("barnabas_request_failures_total", 'api="PRODUCE"'): "0x10 1x30"},
    ),
    AlertCase(
        alert="BarnabasLoopLag",
        series={on("barnabas_loop_lag_seconds_max"): "0.01x4 2x20"},
        quiet_at=8,
        fires_at=11,
        labels=INSTANCE,
        summary="Broker demo-0 of demo stalls for 2s",
    ),
    AlertCase(
        alert="BarnabasDrainNearlyOutOfTime",
        series={
            on("barnabas_drain_seconds"): "0 30 90 90",
            on("barnabas_drain_budget_seconds"): "100x9",
        },
        quiet_at=1,
        fires_at=2,
        labels=INSTANCE,
        summary="Broker demo-0 of demo does not get rid of its leaderships",
    ),
    AlertCase(
        alert="BarnabasGroupLagSeconds",
        series={
            on(
                "barnabas_group_lag_seconds", 'group="billing",topic="orders",partition="0"'
            ): "0x4 600x20"
        },
        quiet_at=8,
        fires_at=11,
        labels=GROUP,
        summary="Group billing is 10m 0s behind on orders",
    ),
    AlertCase(
        alert="BarnabasGroupLagGrowing",
        series={_LAG: "20000+600x120"},
        quiet_at=20,
        fires_at=60,
        labels=GROUP,
        summary="Group billing falls behind on orders: 56k records",
        quiet_series={_LAG: "200000-600x120"},
    ),
    AlertCase(
        alert="BarnabasGroupStuck",
        series={_LAG: "5+1x60", _COMMITTED: "7x60"},
        quiet_at=3,
        fires_at=25,
        labels=GROUP,
        summary="Group billing reads nothing of orders",
        quiet_series={_LAG: "5+1x60", _COMMITTED: "7+1x60"},
    ),
    AlertCase(
        alert="BarnabasTransactionOpenLong",
        series={on("barnabas_transaction_open_oldest_seconds"): "0x4 3600x20"},
        quiet_at=8,
        fires_at=11,
        labels=CLUSTER,
        summary="A transaction of demo has been open for 1h 0m 0s",
    ),
    AlertCase(
        alert="BarnabasTransactionsNotEnding",
        series={on("barnabas_transactions_ending"): "0x4 2x40"},
        quiet_at=12,
        fires_at=22,
        labels=CLUSTER,
        summary="2 transactions of demo are decided and do not end",
        quiet_series={on("barnabas_transactions_ending"): "0 2 0 1 0 3 0 2 0x40"},
    ),
    AlertCase(
        alert="BarnabasOperatorDown",
        series={on("barnabas_operator_leader", target=OPERATOR): "1x4 0x20"},
        quiet_at=8,
        fires_at=11,
        labels={},
        summary="No operator of Barnabas is at work",
    ),
    AlertCase(
        alert="BarnabasTwoOperators",
        series={
            on("barnabas_operator_leader", target=OPERATOR): "1x20",
            'barnabas_operator_leader{namespace="shop",job="barnabas-operator",instance="b"}': (
                "0x4 1x20"
            ),
        },
        quiet_at=6,
        fires_at=8,
        labels=OPERATORS,
        summary="2 operators take themselves for the one that acts",
    ),
    AlertCase(
        alert="BarnabasOperatorFailing",
        series={
            on(
                "barnabas_operator_reconciles_total", 'kind="topics",result="api"', OPERATOR
            ): "1x20 1+1x40"
        },
        quiet_at=22,
        fires_at=40,
        labels={**OPERATORS, "kind": "topics"},
        summary="The operator fails to reconcile topics",
        # Some passes fail, others do not.
        quiet_series={
            on(
                "barnabas_operator_reconciles_total", 'kind="topics",result="api"', OPERATOR
            ): "1x20 1+1x40",
            on(
                "barnabas_operator_reconciles_total", 'kind="topics",result="done"', OPERATOR
            ): "1+1x60",
        },
    ),
    AlertCase(
        alert="BarnabasOperatorStuck",
        series={on("barnabas_operator_queue_oldest_seconds", target=OPERATOR): "0x4 900x20"},
        quiet_at=8,
        fires_at=11,
        labels={**OPERATORS, "instance": "barnabas-operator-0"},
        summary="The operator has been at one thing for 15m 0s",
    ),
    AlertCase(
        alert="BarnabasOperatorWritesWithoutEnd",
        series={
            on(
                "barnabas_operator_api_writes_total", 'verb="apply",kind="StatefulSet"', OPERATOR
            ): "0+20x200"
        },
        quiet_at=60,
        fires_at=150,
        labels={**OPERATORS, "kind": "StatefulSet"},
        summary="The operator writes StatefulSet objects again and again",
        quiet_series={
            on(
                "barnabas_operator_api_writes_total", 'verb="apply",kind="StatefulSet"', OPERATOR
            ): "300x200"
        },
    ),
    AlertCase(
        alert="BarnabasCertificateExpires",
        # Time begins with 0 here: 30 and a bit less than 15 days from then.
        series={
            on("barnabas_tls_certificate_not_after_seconds", _CLIENTS): "2592000x9 1290000x120"
        },
        quiet_at=60,
        fires_at=75,
        labels={**CLUSTER, "listener": "CLIENTS"},
        summary="The certificate of listener CLIENTS of demo ends in 14d 21h 5m 0s",
        quiet_series={on("barnabas_tls_certificate_not_after_seconds", _CLIENTS): "2592000x120"},
    ),
    AlertCase(
        alert="BarnabasCertificateNotLoaded",
        series={on("barnabas_tls_reload_failures_total", _CLIENTS): "0x4 1+12x60"},
        quiet_at=15,
        fires_at=25,
        labels={**CLUSTER, "listener": "CLIENTS"},
        summary="Listener CLIENTS of demo does not take its renewed certificate",
        quiet_series={on("barnabas_tls_reload_failures_total", _CLIENTS): "7x60"},
    ),
    AlertCase(
        alert="BarnabasLoginsFail",
        series={on("barnabas_login_failures_total", _SCRAM): "0+240x40"},
        quiet_at=8,
        fires_at=20,
        labels={**CLUSTER, "mechanism": "SCRAM-SHA-512"},
        summary="4 log-ins a second by SCRAM-SHA-512 fail at demo",
        quiet_series={on("barnabas_login_failures_total", _SCRAM): "0+30x40"},
    ),
    AlertCase(
        alert="BarnabasManyDenials",
        series={on("barnabas_authorizer_denials_total"): "0+240x40"},
        quiet_at=8,
        fires_at=20,
        labels=CLUSTER,
        summary="4 requests a second are denied by the ACLs of demo",
        quiet_series={on("barnabas_authorizer_denials_total"): "0+30x40"},
    ),
    AlertCase(
        alert="BarnabasAuditIncomplete",
        series={on("barnabas_audit_dropped_total"): "0x4 5+5x9"},
        quiet_at=4,
        fires_at=8,
        labels=CLUSTER,
        summary="The audit log of demo lacks events",
        quiet_series={on("barnabas_audit_dropped_total"): "5x40"},
    ),
    AlertCase(
        alert="BarnabasWebhookCertificateExpires",
        # Time begins with 0 here: 31 and a bit less than 30 days from then; 0 where there is none.
        series={
            on("barnabas_operator_webhook_certificate_expires_seconds", target=OPERATOR): (
                "2678400x9 2590000x120"
            )
        },
        quiet_at=60,
        fires_at=75,
        labels={**OPERATORS, "instance": "barnabas-operator-0"},
        summary=(
            "The eviction webhook of barnabas-operator-0 will have no valid certificate in 30 days"
        ),
        quiet_series={
            on("barnabas_operator_webhook_certificate_expires_seconds", target=OPERATOR): (
                "2678400x120"
            )
        },
    ),
    AlertCase(
        alert="BarnabasResourceNotReady",
        # The namespace is the Broker's: the operator's series keep their own labels.
        series={
            'barnabas_operator_resources{namespace="shop",job="barnabas-operator",kind="Topic",'
            'broker="demo",ready="false"}': "0x4 2x30",
            'barnabas_operator_resources{namespace="shop",job="barnabas-operator",kind="Topic",'
            'broker="demo",ready="true"}': "9x40",
        },
        quiet_at=15,
        fires_at=21,
        labels={"kind": "Topic", "namespace": "shop", "broker": "demo"},
        summary="2 Topic resources of shop/demo are not ready",
    ),
)
