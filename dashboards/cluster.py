# ruff: noqa: INP001 (a folder of dashboards, not a package)
"""The dashboard of a cluster: is it healthy, how busy is it, and where."""

from typing import Final

from dashboards.panels import Dashboard, Panel, Query, Row
from dashboards.selections import CLUSTER_VARIABLE, NAMESPACE_VARIABLE, of, rate

_BAD_FROM_ONE: Final = ((None, "green"), (1, "red"))
_WARN_FROM_ONE: Final = ((None, "green"), (1, "orange"))
_STATES: Final = (
    (0, "stopped", "red"),
    (1, "starting", "blue"),
    (2, "recovering", "purple"),
    (3, "running", "green"),
    (6, "draining", "orange"),
    (7, "stopping", "orange"),
)

_PRODUCE_BUCKETS: Final = rate("barnabas_request_seconds_bucket", 'api="produce"')


def _stat(title: str, text: str, expression: str, steps: object = ((None, "green"),)) -> Panel:
    assert isinstance(steps, tuple)
    return Panel(
        title=title,
        text=text,
        kind="stat",
        width=4,
        height=4,
        steps=steps,
        decimals=0,
        queries=[Query(expression=expression)],
    )


_HEALTH: Final = Row(
    title="Health",
    panels=[
        _stat(
            "Brokers",
            "Brokers that may lead, as the controller sees them.",
            f"sum(max by (namespace, job) ({of('barnabas_controller_active_brokers')}))",
            ((None, "red"), (1, "green")),
        ),
        _stat(
            "Controllers",
            "Brokers that take themselves for the active controller: one for each cluster.",
            f"sum({of('barnabas_controller_active')})",
            ((None, "red"), (1, "green")),
        ),
        _stat(
            "Offline partitions",
            "Partitions without a leader: neither written nor read.",
            f"sum(max by (namespace, job) ({of('barnabas_offline_partitions')}))",
            _BAD_FROM_ONE,
        ),
        _stat(
            "Under min ISR",
            "Partitions that refuse acks=all.",
            f"sum({of('barnabas_under_min_isr_partitions')})",
            _BAD_FROM_ONE,
        ),
        _stat(
            "Under-replicated",
            "Partitions of which a replica is not in sync.",
            f"sum({of('barnabas_under_replicated_partitions')})",
            _WARN_FROM_ONE,
        ),
        _stat(
            "Fenced brokers",
            "Registered brokers that may lead nothing: down, recovering, or cut off.",
            f"sum(max by (namespace, job) ({of('barnabas_controller_fenced_brokers')}))",
            _WARN_FROM_ONE,
        ),
        Panel(
            title="What each broker does",
            text="The states of the broker processes; a gap is a process that did not answer.",
            kind="state-timeline",
            width=12,
            states=_STATES,
            queries=[Query(expression=of("barnabas_broker_state"), legend="{{instance}}")],
        ),
        Panel(
            title="Partitions in trouble",
            text="Offline, below min ISR, at min ISR, and without a replica.",
            width=12,
            queries=[
                Query(
                    expression=f"max by (job) ({of('barnabas_offline_partitions')})",
                    legend="{{job}} offline",
                ),
                Query(
                    expression=f"sum by (job) ({of('barnabas_under_min_isr_partitions')})",
                    legend="{{job}} under min ISR",
                ),
                Query(
                    expression=f"sum by (job) ({of('barnabas_at_min_isr_partitions')})",
                    legend="{{job}} at min ISR",
                ),
                Query(
                    expression=f"sum by (job) ({of('barnabas_under_replicated_partitions')})",
                    legend="{{job}} under-replicated",
                ),
            ],
        ),
    ],
)

_TRAFFIC: Final = Row(
    title="Traffic",
    panels=[
        Panel(
            title="Records written",
            text="Records appended by leaders, a second.",
            unit="cps",
            is_stacked=True,
            queries=[
                Query(
                    expression=(
                        f"sum by (instance) ({rate('barnabas_partition_records_in_total')})"
                    ),
                    legend="{{instance}}",
                )
            ],
        ),
        Panel(
            title="Bytes written",
            text="Bytes of record batches appended by leaders, a second.",
            unit="Bps",
            is_stacked=True,
            queries=[
                Query(
                    expression=f"sum by (instance) ({rate('barnabas_partition_bytes_in_total')})",
                    legend="{{instance}}",
                )
            ],
        ),
        Panel(
            title="Bytes read",
            text="Bytes of record batches read by clients, a second; followers are not counted.",
            unit="Bps",
            is_stacked=True,
            queries=[
                Query(
                    expression=f"sum by (instance) ({rate('barnabas_partition_bytes_out_total')})",
                    legend="{{instance}}",
                )
            ],
        ),
        Panel(
            title="Requests",
            text="Requests answered a second, by what they ask for.",
            unit="reqps",
            is_stacked=True,
            queries=[
                Query(
                    expression=f"sum by (api) ({rate('barnabas_request_seconds_count')})",
                    legend="{{api}}",
                )
            ],
        ),
        Panel(
            title="Produce: time to answer",
            text="From a request's arrival to its answer, replication included.",
            unit="s",
            queries=[
                Query(
                    expression=(
                        f"histogram_quantile({quantile}, sum by (le) ({_PRODUCE_BUCKETS}))"
                    ),
                    legend=f"p{round(quantile * 100)}",
                )
                for quantile in (0.5, 0.95, 0.99)
            ],
        ),
        Panel(
            title="Requests that failed",
            text="Requests that failed as a whole, by a fault of the brokers. Should be none.",
            unit="reqps",
            queries=[
                Query(
                    expression=f"sum by (api) ({rate('barnabas_request_failures_total')}) > 0",
                    legend="{{api}}",
                    may_be_empty=True,
                )
            ],
        ),
    ],
)

_REPLICATION: Final = Row(
    title="Replication and control",
    panels=[
        Panel(
            title="Leaders",
            text="Partitions led by each broker; even when all is well.",
            queries=[Query(expression=of("barnabas_leaders"), legend="{{instance}}")],
        ),
        Panel(
            title="Replication lag",
            text="The most committed records that a partition followed by a broker lacks.",
            queries=[
                Query(expression=of("barnabas_replication_lag_records_max"), legend="{{instance}}")
            ],
        ),
        Panel(
            title="Replicas that left and joined",
            text="Changes of in-sync replicas a second.",
            unit="ops",
            queries=[
                Query(
                    expression=f"sum by (job) ({rate('barnabas_isr_shrinks_total')})",
                    legend="{{job}} left",
                ),
                Query(
                    expression=f"sum by (job) ({rate('barnabas_isr_expands_total')})",
                    legend="{{job}} joined",
                ),
            ],
        ),
        Panel(
            title="Elections",
            text="Leaders elected a second; unclean ones may have lost records.",
            unit="ops",
            queries=[
                Query(
                    expression=f"sum by (job) ({rate('barnabas_controller_elections_total')})",
                    legend="{{job}}",
                ),
                Query(
                    expression=(
                        f"sum by (job) ({rate('barnabas_controller_unclean_elections_total')})"
                    ),
                    legend="{{job}} unclean",
                ),
            ],
        ),
        Panel(
            title="Partitions on the move",
            text="Partitions whose replicas are being changed, and that others should lead.",
            queries=[
                Query(
                    expression=f"max by (job) ({of('barnabas_controller_reassigning_partitions')})",
                    legend="{{job}} moving",
                ),
                Query(
                    expression=(
                        f"max by (job) ({of('barnabas_controller_preferred_replica_imbalance')})"
                    ),
                    legend="{{job}} not led by their first replica",
                ),
            ],
        ),
        Panel(
            title="Drains",
            text="How much of the time for a stop a broker has used to give its leaderships away.",
            unit="percentunit",
            queries=[
                Query(
                    expression=(
                        f"{of('barnabas_drain_seconds')} / {of('barnabas_drain_budget_seconds')}"
                    ),
                    legend="{{instance}}",
                )
            ],
        ),
    ],
)

_MACHINE: Final = Row(
    title="Processes and disks",
    panels=[
        Panel(
            title="CPU",
            text="Cores that the brokers use.",
            unit="short",
            queries=[Query(expression=rate("process_cpu_seconds_total"), legend="{{instance}}")],
        ),
        Panel(
            title="Memory",
            text="Resident memory of the brokers.",
            unit="bytes",
            queries=[Query(expression=of("process_resident_memory_bytes"), legend="{{instance}}")],
        ),
        Panel(
            title="Stalls of the loop",
            text="The longest that a broker's loop came late, in the last one or two minutes.",
            unit="s",
            queries=[Query(expression=of("barnabas_loop_lag_seconds_max"), legend="{{instance}}")],
        ),
        Panel(
            title="Disk free",
            text="Room on the file systems of the log directories.",
            unit="percentunit",
            queries=[
                Query(
                    expression=(
                        f"{of('barnabas_log_directory_free_bytes')}"
                        f" / {of('barnabas_log_directory_total_bytes')}"
                    ),
                    legend="{{instance}} {{directory}}",
                )
            ],
        ),
        Panel(
            title="Log directories that failed",
            text="Should be none.",
            queries=[
                Query(
                    expression=f"1 - {of('barnabas_log_directory_online')}",
                    legend="{{instance}} {{directory}}",
                )
            ],
        ),
        Panel(
            title="Connections",
            text="Open connections of clients and brokers.",
            queries=[Query(expression=of("barnabas_connections_open"), legend="{{instance}}")],
        ),
    ],
)

_SECURITY: Final = Row(
    title="Security",
    panels=[
        Panel(
            title="Certificates end in",
            text="How long the certificate of each listener is valid: never below 15 days.",
            unit="s",
            queries=[
                Query(
                    expression=(
                        "min by (listener) "
                        f"({of('barnabas_tls_certificate_not_after_seconds')}) - time()"
                    ),
                    legend="{{listener}}",
                    may_be_empty=True,
                )
            ],
        ),
        Panel(
            title="TLS handshakes",
            text="By listener and outcome: who fails speaks no TLS, or trusts nobody here.",
            queries=[
                Query(
                    expression=(
                        f"sum by (listener, outcome) ({rate('barnabas_tls_handshakes_total')})"
                    ),
                    legend="{{listener}} {{outcome}}",
                    may_be_empty=True,
                )
            ],
        ),
        Panel(
            title="Renewed certificates",
            text="Taken over, and refused because the files do not fit each other.",
            queries=[
                Query(
                    expression=f"sum({rate('barnabas_tls_reloads_total')})",
                    legend="taken over",
                    may_be_empty=True,
                ),
                Query(
                    expression=f"sum({rate('barnabas_tls_reload_failures_total')})",
                    legend="refused",
                    may_be_empty=True,
                ),
            ],
        ),
        Panel(
            title="Failed log-ins",
            text="Wrong passwords, unknown users, tokens that are not valid, by mechanism.",
            queries=[
                Query(
                    expression=f"sum by (mechanism) ({rate('barnabas_login_failures_total')})",
                    legend="{{mechanism}}",
                    may_be_empty=True,
                )
            ],
        ),
        Panel(
            title="Denials",
            text="Requests that ACLs denied, or would deny in phase Audit.",
            queries=[
                Query(
                    expression=f"sum({rate('barnabas_authorizer_denials_total')})",
                    legend="denials",
                    may_be_empty=True,
                )
            ],
        ),
        Panel(
            title="Clients that wait for their quotas",
            text="Requests and connections after which a client was held back, by kind of quota.",
            queries=[
                Query(
                    expression=f"sum by (quota) ({rate('barnabas_client_throttles_total')})",
                    legend="{{quota}}",
                    may_be_empty=True,
                )
            ],
        ),
    ],
)

CLUSTER: Final = Dashboard(
    name="cluster",
    title="Barnabas / Cluster",
    text="Is the cluster healthy, how busy is it, and where.",
    variables=[NAMESPACE_VARIABLE, CLUSTER_VARIABLE],
    rows=[_HEALTH, _TRAFFIC, _REPLICATION, _MACHINE, _SECURITY],
)
