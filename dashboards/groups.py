# ruff: noqa: INP001 (a folder of dashboards, not a package)
"""The dashboard of consumer groups: how far behind they are, in records and in seconds."""

from typing import Final

from dashboards.panels import Dashboard, Panel, Query, Row, Variable
from dashboards.selections import CLUSTER, CLUSTER_VARIABLE, NAMESPACE_VARIABLE, of, rate

_GROUP: Final = 'group=~"$group"'
_GROUP_VARIABLE: Final = Variable(
    name="group",
    label="Group",
    query=f"label_values(barnabas_group_committed_offset{{{CLUSTER}}}, group)",
)
_LAG: Final = of("barnabas_group_lag_records", _GROUP)
_LAG_SECONDS: Final = of("barnabas_group_lag_seconds", _GROUP)
_COMMITTED: Final = of("barnabas_group_committed_offset", _GROUP)

_BEHIND: Final = Row(
    title="How far behind",
    panels=[
        Panel(
            title="Lag in seconds",
            text="How old the oldest record is that a group has not read, of its worst partition.",
            unit="s",
            width=12,
            queries=[Query(expression=f"max by (group) ({_LAG_SECONDS})", legend="{{group}}")],
        ),
        Panel(
            title="Lag in records",
            text="Records that a group has still to read, of all its partitions.",
            width=12,
            queries=[Query(expression=f"sum by (group) ({_LAG})", legend="{{group}}")],
        ),
        Panel(
            title="Lag of topics",
            text="Records that a group has still to read, topic by topic.",
            queries=[
                Query(expression=f"sum by (group, topic) ({_LAG})", legend="{{group}} / {{topic}}")
            ],
        ),
        Panel(
            title="Records read",
            text="By how much the groups' committed offsets go forward, a second.",
            unit="cps",
            queries=[
                Query(
                    expression=(f"clamp_min(sum by (group) (deriv({_COMMITTED}[5m])), 0)"),
                    legend="{{group}}",
                )
            ],
        ),
        Panel(
            title="Time until caught up",
            text="Lag divided by the pace at which it shrank in the last ten minutes; only of"
            " groups that catch up.",
            unit="s",
            queries=[
                Query(
                    expression=(
                        f"sum by (group) ({_LAG}) / (-sum by (group) (deriv({_LAG}[10m])) > 0)"
                    ),
                    legend="{{group}}",
                    may_be_empty=True,
                )
            ],
        ),
        Panel(
            title="Partitions furthest behind",
            text="The twenty partitions with the most records to read.",
            kind="table",
            width=12,
            height=9,
            hidden=("Time",),
            renamed=(("Value", "Records"),),
            queries=[Query(expression=f"topk(20, max by (job, group, topic, partition) ({_LAG}))")],
        ),
        Panel(
            title="Groups that read nothing",
            text="Groups with records to read that have committed nothing for a quarter of an hour:"
            " the lag of each. What BarnabasGroupStuck tells of.",
            width=12,
            height=9,
            queries=[
                Query(
                    expression=(
                        f"sum by (group, topic) (min_over_time({_LAG}[15m])) > 0"
                        f" and sum by (group, topic) (changes({_COMMITTED}[15m])) == 0"
                    ),
                    legend="{{group}} / {{topic}}",
                    may_be_empty=True,
                )
            ],
        ),
    ],
)

_BACKLOG: Final = of("barnabas_share_backlog_records", _GROUP)
_QUEUES: Final = Row(
    title="Share groups",
    panels=[
        Panel(
            title="Backlog",
            text="Records that a share group may read and that are not done, of groups with"
            " members.",
            queries=[
                Query(
                    expression=f"sum by (group, topic) ({_BACKLOG})",
                    legend="{{group}} / {{topic}}",
                    may_be_empty=True,
                )
            ],
        ),
        Panel(
            title="In flight",
            text="Records of a group between the first that is not done and the last that was"
            " delivered. At share.partition.max.record.locks a partition stops.",
            queries=[
                Query(
                    expression=(
                        f"max by (group, topic) ({of('barnabas_share_in_flight_records', _GROUP)})"
                    ),
                    legend="{{group}} / {{topic}}",
                    may_be_empty=True,
                )
            ],
        ),
        Panel(
            title="Oldest in flight",
            text="For how long the same record is the first that is not done, of the worst"
            " partition.",
            unit="s",
            queries=[
                Query(
                    expression=(
                        "max by (group, topic)"
                        f" ({of('barnabas_share_oldest_in_flight_seconds', _GROUP)})"
                    ),
                    legend="{{group}} / {{topic}}",
                    may_be_empty=True,
                )
            ],
        ),
        Panel(
            title="Deliveries",
            text="Records delivered to members of share groups, a second, and those that had been"
            " delivered before.",
            unit="cps",
            queries=[
                Query(
                    expression=f"sum ({rate('barnabas_share_acquired_records_total')})",
                    legend="all",
                    may_be_empty=True,
                ),
                Query(
                    expression=f"sum ({rate('barnabas_share_redelivered_records_total')})",
                    legend="again",
                    may_be_empty=True,
                ),
            ],
        ),
        Panel(
            title="Acknowledgements",
            text="Records that members have accepted, released, rejected or renewed, a second, and"
            " locks that ran out.",
            unit="cps",
            queries=[
                Query(
                    expression=f"sum by (type) ({rate('barnabas_share_acknowledgements_total')})",
                    legend="{{type}}",
                    may_be_empty=True,
                ),
                Query(
                    expression=f"sum ({rate('barnabas_share_lock_timeouts_total')})",
                    legend="lock ran out",
                    may_be_empty=True,
                ),
            ],
        ),
        Panel(
            title="Dead letters",
            text="Records written to topics for dead letters, a second, and those archived without"
            " one: they are lost.",
            unit="cps",
            queries=[
                Query(
                    expression=(
                        f"sum by (group) ({rate('barnabas_share_dead_letters_total', _GROUP)})"
                    ),
                    legend="{{group}}",
                    may_be_empty=True,
                ),
                Query(
                    expression=(
                        f"sum by (group) ({rate('barnabas_share_dead_letters_lost_total', _GROUP)})"
                    ),
                    legend="{{group}} lost",
                    may_be_empty=True,
                ),
            ],
        ),
    ],
)

_COORDINATORS: Final = Row(
    title="Coordinators",
    panels=[
        Panel(
            title="Groups by protocol and state",
            text="Groups that the brokers coordinate.",
            is_stacked=True,
            queries=[
                Query(
                    expression=f"sum by (protocol, state) ({of('barnabas_groups')})",
                    legend="{{protocol}} {{state}}",
                )
            ],
        ),
        Panel(
            title="Members",
            text="Members of each group.",
            queries=[
                Query(
                    expression=f"sum by (group) ({of('barnabas_group_members', _GROUP)})",
                    legend="{{group}}",
                    may_be_empty=True,
                )
            ],
        ),
        Panel(
            title="Rebalances",
            text="Rebalances begun and completed, a second.",
            unit="ops",
            queries=[
                Query(
                    expression=f"sum ({rate('barnabas_group_rebalances_started_total')})",
                    legend="begun",
                ),
                Query(
                    expression=f"sum ({rate('barnabas_group_rebalances_completed_total')})",
                    legend="completed",
                ),
            ],
        ),
        Panel(
            title="Commits",
            text="Requests that committed offsets, a second, by coordinator.",
            unit="ops",
            queries=[Query(expression=rate("barnabas_group_commits_total"), legend="{{instance}}")],
        ),
        Panel(
            title="Members lost",
            text="Members whose session ended without a word: they crashed, hung or were cut off.",
            unit="ops",
            queries=[
                Query(
                    expression=rate("barnabas_group_members_expired_total"),
                    legend="{{instance}}",
                )
            ],
        ),
        Panel(
            title="Appends that failed",
            text="Changes of groups that could not be written; members try again. Should be none.",
            unit="ops",
            queries=[
                Query(
                    expression=rate("barnabas_group_append_failures_total"),
                    legend="{{instance}}",
                )
            ],
        ),
    ],
)

GROUPS: Final = Dashboard(
    name="groups",
    title="Barnabas / Consumer groups",
    text="How far behind consumer groups are, in records and in seconds, and how they fare.",
    variables=[NAMESPACE_VARIABLE, CLUSTER_VARIABLE, _GROUP_VARIABLE],
    rows=[_BEHIND, _QUEUES, _COORDINATORS],
)
