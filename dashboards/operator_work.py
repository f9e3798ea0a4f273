# ruff: noqa: INP001 (a folder of dashboards, not a package)
"""The dashboard of the operator: does it work, what does it do, and is it quiet when idle."""

from typing import Final

from dashboards.panels import Dashboard, Panel, Query, Row

_HEALTH: Final = Row(
    title="Health",
    panels=[
        Panel(
            title="Operators at work",
            text="One replica acts, by its Lease; the others wait.",
            kind="stat",
            width=4,
            height=4,
            decimals=0,
            steps=((None, "red"), (1, "green"), (2, "red")),
            queries=[Query(expression="sum(barnabas_operator_leader)")],
        ),
        Panel(
            title="Resources ready",
            text="Brokers, Topics and ConsumerGroups whose condition Ready is true.",
            kind="stat",
            width=4,
            height=4,
            decimals=0,
            queries=[
                Query(
                    expression='sum(barnabas_operator_resources{ready="true"})', may_be_empty=True
                )
            ],
        ),
        Panel(
            title="Resources not ready",
            text="Look at their conditions: kubectl get barnabas --all-namespaces.",
            kind="stat",
            width=4,
            height=4,
            decimals=0,
            steps=((None, "green"), (1, "orange")),
            queries=[
                Query(
                    expression='sum(barnabas_operator_resources{ready="false"})',
                    may_be_empty=True,
                )
            ],
        ),
        Panel(
            title="Oldest work",
            text="How long the oldest key waits, or is worked at.",
            kind="stat",
            unit="s",
            width=4,
            height=4,
            steps=((None, "green"), (60, "orange"), (300, "red")),
            queries=[Query(expression="max(barnabas_operator_queue_oldest_seconds)")],
        ),
        Panel(
            title="Writes in the last hour",
            text="Writes to the API server. Nothing changes, nothing is written: idle means none.",
            kind="stat",
            width=4,
            height=4,
            decimals=0,
            queries=[
                Query(
                    expression="sum(increase(barnabas_operator_api_writes_total[1h]))",
                    may_be_empty=True,
                )
            ],
        ),
        Panel(
            title="Failed passes in the last hour",
            text="A pass that fails is tried again with growing pauses.",
            kind="stat",
            width=4,
            height=4,
            decimals=0,
            steps=((None, "green"), (1, "orange")),
            queries=[
                Query(
                    expression=(
                        'sum(increase(barnabas_operator_reconciles_total{result!="done"}[1h]))'
                    ),
                    may_be_empty=True,
                )
            ],
        ),
    ],
)

_WORK: Final = Row(
    title="Work",
    panels=[
        Panel(
            title="Passes",
            text="Finished passes a second, by what they reconcile and how they ended.",
            unit="ops",
            queries=[
                Query(
                    expression=(
                        "sum by (kind, result)"
                        " (rate(barnabas_operator_reconciles_total[$__rate_interval]))"
                    ),
                    legend="{{kind}} {{result}}",
                    may_be_empty=True,
                )
            ],
        ),
        Panel(
            title="How long a pass takes",
            text="The 99th percentile, by what is reconciled.",
            unit="s",
            queries=[
                Query(
                    expression=(
                        "histogram_quantile(0.99, sum by (kind, le)"
                        " (rate(barnabas_operator_reconcile_seconds_bucket[$__rate_interval])))"
                    ),
                    legend="{{kind}}",
                    may_be_empty=True,
                )
            ],
        ),
        Panel(
            title="Queue",
            text="Keys that wait, and passes under way.",
            queries=[
                Query(expression="barnabas_operator_queue_depth", legend="{{instance}} waiting"),
                Query(
                    expression="barnabas_operator_reconciles_in_progress",
                    legend="{{instance}} under way",
                ),
            ],
        ),
        Panel(
            title="Requests to the API server",
            text="By verb and answer; 0 is no answer.",
            unit="reqps",
            queries=[
                Query(
                    expression=(
                        "sum by (verb, code)"
                        " (rate(barnabas_operator_api_requests_total[$__rate_interval]))"
                    ),
                    legend="{{verb}} {{code}}",
                    may_be_empty=True,
                )
            ],
        ),
        Panel(
            title="Writes to the API server",
            text="By verb and kind, without the operator's own Lease.",
            unit="wps",
            queries=[
                Query(
                    expression=(
                        "sum by (verb, kind)"
                        " (rate(barnabas_operator_api_writes_total[$__rate_interval]))"
                    ),
                    legend="{{verb}} {{kind}}",
                    may_be_empty=True,
                )
            ],
        ),
        Panel(
            title="Watch events",
            text="Events of watches a second, by kind. None for long, though things change: stuck.",
            unit="ops",
            queries=[
                Query(
                    expression=(
                        "sum by (kind)"
                        " (rate(barnabas_operator_watch_events_total[$__rate_interval]))"
                    ),
                    legend="{{kind}}",
                    may_be_empty=True,
                )
            ],
        ),
        Panel(
            title="Resources that are not ready",
            text="By kind and Broker.",
            width=24,
            queries=[
                Query(
                    expression=(
                        "sum by (kind, namespace, broker)"
                        ' (barnabas_operator_resources{ready="false"})'
                    ),
                    legend="{{kind}} of {{namespace}}/{{broker}}",
                    may_be_empty=True,
                )
            ],
        ),
    ],
)

OPERATOR: Final = Dashboard(
    name="operator",
    title="Barnabas / Operator",
    text="Does the operator work, what does it do, and is it quiet when there is nothing to do.",
    variables=[],
    rows=[_HEALTH, _WORK],
)
