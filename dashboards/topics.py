# ruff: noqa: INP001 (a folder of dashboards, not a package)
"""The dashboard of topics: what is written and read, how large they are, and transactions."""

from typing import Final

from dashboards.panels import Dashboard, Panel, Query, Row, Variable
from dashboards.selections import CLUSTER, CLUSTER_VARIABLE, NAMESPACE_VARIABLE, of, rate

_TOPIC: Final = 'topic=~"$topic"'
_TOPIC_VARIABLE: Final = Variable(
    name="topic",
    label="Topic",
    query=f"label_values(barnabas_partition_size_bytes{{{CLUSTER}}}, topic)",
)


def _by_topic(title: str, text: str, name: str, unit: str) -> Panel:
    return Panel(
        title=title,
        text=text,
        unit=unit,
        queries=[
            Query(expression=f"sum by (topic) ({rate(name, _TOPIC)})", legend="{{topic}}"),
        ],
    )


_TRAFFIC: Final = Row(
    title="Traffic by topic",
    panels=[
        _by_topic(
            "Records written",
            "Records appended by leaders, a second.",
            "barnabas_partition_records_in_total",
            "cps",
        ),
        _by_topic(
            "Bytes written",
            "Bytes of record batches appended by leaders, a second.",
            "barnabas_partition_bytes_in_total",
            "Bps",
        ),
        _by_topic(
            "Bytes read",
            "Bytes of record batches read by clients, a second.",
            "barnabas_partition_bytes_out_total",
            "Bps",
        ),
        _by_topic(
            "Bytes refused",
            "Bytes of record batches that were not appended: too large, invalid, too few replicas.",
            "barnabas_partition_bytes_rejected_total",
            "Bps",
        ),
        Panel(
            title="Size on disk",
            text="Bytes of record batches on the disks of all replicas.",
            unit="bytes",
            is_stacked=True,
            queries=[
                Query(
                    expression=f"sum by (topic) ({of('barnabas_partition_size_bytes', _TOPIC)})",
                    legend="{{topic}}",
                )
            ],
        ),
        Panel(
            title="Records kept",
            text="Offsets from the first that can be read to the end, of all partitions.",
            queries=[
                Query(
                    expression=(
                        "sum by (topic) (max by (namespace, job, topic, partition) ("
                        f"{of('barnabas_partition_log_end_offset', _TOPIC)}"
                        f" - {of('barnabas_partition_log_start_offset', _TOPIC)}))"
                    ),
                    legend="{{topic}}",
                )
            ],
        ),
    ],
)

_PARTITIONS: Final = Row(
    title="Partitions",
    panels=[
        Panel(
            title="Busiest partitions",
            text="The twenty partitions that most is written to: whether keys are spread evenly.",
            unit="Bps",
            width=12,
            height=9,
            queries=[
                Query(
                    expression=(
                        "topk(20, sum by (topic, partition)"
                        f" ({rate('barnabas_partition_bytes_in_total', _TOPIC)}))"
                    ),
                    legend="{{topic}}-{{partition}}",
                )
            ],
        ),
        Panel(
            title="Largest partitions",
            text="The twenty partitions that take the most room, once for each replica.",
            kind="table",
            unit="bytes",
            width=12,
            height=9,
            hidden=("Time",),
            renamed=(("Value", "Bytes"),),
            queries=[
                Query(
                    expression=(
                        "topk(20, max by (job, topic, partition)"
                        f" ({of('barnabas_partition_size_bytes', _TOPIC)}))"
                    )
                )
            ],
        ),
        Panel(
            title="Not yet committed",
            text="Records at leaders that not all replicas in sync have yet, of all partitions.",
            width=12,
            queries=[
                Query(
                    expression=(
                        "sum by (topic) (max by (namespace, job, topic, partition) ("
                        f"{of('barnabas_partition_log_end_offset', _TOPIC)})"
                        " - max by (namespace, job, topic, partition) ("
                        f"{of('barnabas_partition_high_watermark', _TOPIC)}))"
                    ),
                    legend="{{topic}}",
                )
            ],
        ),
        Panel(
            title="Topics and partitions",
            text="How many the cluster has; replicas are counted once.",
            width=12,
            queries=[
                Query(
                    expression=f"max by (job) ({of('barnabas_controller_topics')})",
                    legend="{{job}} topics",
                ),
                Query(
                    expression=f"max by (job) ({of('barnabas_controller_partitions')})",
                    legend="{{job}} partitions",
                ),
            ],
        ),
    ],
)

_TRANSACTIONS: Final = Row(
    title="Transactions",
    panels=[
        Panel(
            title="Oldest open transaction",
            text="For how long it has been open: readers of committed records see nothing that came"
            " behind it.",
            unit="s",
            queries=[
                Query(
                    expression=(f"max by (job) ({of('barnabas_transaction_open_oldest_seconds')})"),
                    legend="{{job}}",
                )
            ],
        ),
        Panel(
            title="Transactional ids",
            text="How many producers' ids the coordinators know, by what their transaction does.",
            is_stacked=True,
            queries=[
                Query(
                    expression=f"sum by (state) ({of('barnabas_transactional_ids')})",
                    legend="{{state}}",
                )
            ],
        ),
        Panel(
            title="Waiting for markers",
            text="Transactions that are decided and not ended in all of their partitions.",
            queries=[
                Query(
                    expression=f"sum by (job) ({of('barnabas_transactions_ending')})",
                    legend="{{job}}",
                )
            ],
        ),
        Panel(
            title="Markers",
            text="Ends of transactions that partitions have taken, and those sent again, a second.",
            unit="cps",
            queries=[
                Query(
                    expression=f"sum ({rate('barnabas_transaction_markers_sent_total')})",
                    legend="taken",
                ),
                Query(
                    expression=f"sum ({rate('barnabas_transaction_marker_retries_total')})",
                    legend="sent again",
                ),
            ],
        ),
    ],
)

TOPICS: Final = Dashboard(
    name="topics",
    title="Barnabas / Topics",
    text="What is written and read, how large topics are, partition by partition.",
    variables=[NAMESPACE_VARIABLE, CLUSTER_VARIABLE, _TOPIC_VARIABLE],
    rows=[_TRAFFIC, _PARTITIONS, _TRANSACTIONS],
)
