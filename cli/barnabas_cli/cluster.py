"""`barnabas cluster`: describe, status, brokers, features, recover.

Not here: how health is told (`cluster_facts.py`), what recovering does (`cluster_recover.py`).
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from barnabas_cli.connection import Connection, with_connection
from barnabas_cli.failures import FAILED
from barnabas_cli.groups import NearestGroup
from barnabas_cli.output import Column, Output, bad_if_any, bytes_text, counted, with_output
from barnabas_client.facts.cluster_facts import cluster_status, feature_rows

if TYPE_CHECKING:
    from barnabas_client.admin.admin import Admin

# How many partitions in trouble a table names; JSON has all of them.
_TROUBLES_SHOWN_MAX = 20
_BROKER_COLUMNS = (
    Column(title="BROKER", field="broker", is_right=True),
    Column(title="ADDRESS", field="address"),
    Column(title="RACK", field="rack"),
    Column(title="CONTROLLER", field="controller", text=lambda value: "*" if value else ""),
    Column(title="LEADERS", field="leaders", is_right=True),
    Column(title="REPLICAS", field="replicas", is_right=True),
    Column(title="NOT IN SYNC", field="out_of_sync", is_right=True, style=bad_if_any),
    Column(title="SIZE", field="size_bytes", text=bytes_text, is_right=True),
    Column(title="METADATA LOG", field="metadata_log"),
    Column(
        title="STATE", field="state", style=lambda state: "green" if state == "ready" else "red"
    ),
)
_TROUBLE_COLUMNS = (
    Column(title="PARTITION", field="partition"),
    Column(title="TROUBLE", field="trouble", style=bad_if_any),
    Column(title="LEADER", field="leader", is_right=True),
    Column(title="REPLICAS", field="replicas"),
    Column(title="IN SYNC", field="in_sync"),
)
_FEATURE_COLUMNS = (
    Column(title="FEATURE", field="feature"),
    Column(title="LEVEL", field="level", is_right=True),
    Column(title="SUPPORTED", field="supported"),
)


@click.group("cluster", cls=NearestGroup)
def command() -> None:
    """The cluster: brokers, health, features; recovery of its control plane."""


@command.command("status")
@with_output
@with_connection
@click.pass_context
def status(context: click.Context, /, connection: Connection, output: Output) -> None:
    """Show the health of the cluster; exit code 1 if a partition is offline."""
    answer = connection.run_admin(cluster_status)
    if not output.is_table:
        output.data(answer)
    else:
        _show_status(answer, output)
    context.exit(FAILED if answer["offline_partitions"] else 0)


def _show_status(answer: dict[str, Any], output: Output) -> None:
    colour = {"healthy": "green", "degraded": "yellow", "unhealthy": "red"}[answer["health"]]
    click.echo(
        f"cluster {answer['cluster_id'] or '-'} is"
        f" {click.style(answer['health'], fg=colour, bold=True)}:"
        f" {counted(len(answer['brokers']), 'broker')}, controller {answer['controller']},"
        f" {counted(answer['topics'], 'topic')}, {counted(answer['partitions'], 'partition')}"
    )
    output.rows(answer["brokers"], _BROKER_COLUMNS)
    for field, words in (
        ("offline_partitions", "offline"),
        ("under_replicated_partitions", "under-replicated"),
    ):
        count = answer[field]
        number = click.style(str(count), fg="red" if count else "green")
        click.echo(f"{words} partitions: {number}")
    if answer["troubles"]:
        output.rows(answer["troubles"][:_TROUBLES_SHOWN_MAX], _TROUBLE_COLUMNS)
        left = len(answer["troubles"]) - _TROUBLES_SHOWN_MAX
        if left > 0:
            click.echo(f"and {left} more (-o json shows all)")


@command.command("describe")
@with_output
@with_connection
def describe(connection: Connection, output: Output) -> None:
    """Show the cluster's id, its controller and its brokers."""

    async def work(admin: Admin) -> dict[str, Any]:
        described = await admin.cluster.describe()
        return {
            "cluster_id": described.cluster_id,
            "controller": described.controller_id,
            "brokers": [
                {
                    "broker": broker.node_id,
                    "address": f"{broker.host}:{broker.port}",
                    "rack": broker.rack,
                }
                for broker in described.brokers
            ],
        }

    output.data(connection.run_admin(work))


@command.command("brokers")
@with_output
@with_connection
def brokers(connection: Connection, output: Output) -> None:
    """List brokers with what they lead and hold."""
    output.rows(connection.run_admin(cluster_status)["brokers"], _BROKER_COLUMNS)


@command.command("features")
@click.option(
    "--upgrade",
    "upgrades",
    multiple=True,
    metavar="NAME=LEVEL",
    help="Raise a feature first, once all brokers support the level; older ones cannot join then.",
)
@with_output
@with_connection
def features(upgrades: tuple[str, ...], connection: Connection, output: Output) -> None:
    """Show the features that brokers support, and the levels that the cluster has agreed on."""
    wanted = dict(map(_feature_level, upgrades))

    async def work(admin: Admin) -> list[dict[str, Any]]:
        if wanted:
            from barnabas_client.admin import FeatureUpdate

            updates = {name: FeatureUpdate(level=level) for name, level in wanted.items()}
            for outcome in (await admin.features.update(updates)).values():
                outcome.unwrap()
        return await feature_rows(admin)

    output.rows(connection.run_admin(work), _FEATURE_COLUMNS, empty="No features are reported.")


def _feature_level(text: str) -> tuple[str, int]:
    name, separator, level = text.partition("=")
    if not (name and separator and level.isdigit()):
        raise click.BadParameter(f"{text!r} is not NAME=LEVEL", param_hint="--upgrade")
    return name, int(level)


@command.command("recover")
@click.option(
    "--config",
    "config_path",
    required=True,
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="The properties file of the broker to recover from, which must be stopped.",
)
@click.option(
    "--set", "settings", multiple=True, metavar="KEY=VALUE", help="Set a broker property."
)
@click.option("--yes", "-y", "is_confirmed", is_flag=True, help="Do not ask for the cluster's id.")
def recover(config_path: Path, settings: tuple[str, ...], is_confirmed: bool) -> None:
    """Unsafe recovery: continue from one broker's copy of the metadata.

    Only for a cluster that lost the disks of a majority of the metadata log's members for good.
    What only those members had is lost. Choose, of the brokers that are left, the one that shows
    the highest epoch here, and of these the one with the highest offset.
    """
    from barnabas_cli.cluster_recover import recover_cluster
    from barnabas_cli.lookups import key_values

    recover_cluster(config_path, key_values(settings, "--set"), is_confirmed=is_confirmed)
