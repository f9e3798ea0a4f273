"""`barnabas config`: settings of topics, brokers, groups and clients.

Not here: what the settings mean (the broker documents them), settings in manifests (`apply.py`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from barnabas_cli.completion import complete_config_names
from barnabas_cli.connection import Connection, with_connection
from barnabas_cli.failures import CommandError
from barnabas_cli.groups import NearestGroup
from barnabas_cli.lookups import check_setting_names, setting_values
from barnabas_cli.output import Column, Output, with_output
from barnabas_protocol.settings.suggestions import hint

if TYPE_CHECKING:
    from barnabas_client.admin.admin import Admin
    from barnabas_client.admin.values.configs import ConfigResource, ResourceType

# The resource types as words of the command line; `clients` are quotas, which are no settings.
KINDS = ("topic", "broker", "group", "logger", "client-metrics", "clients")
_COLUMNS = (
    Column(title="SETTING", field="name"),
    Column(title="VALUE", field="value", text=lambda value: "-" if value is None else str(value)),
    Column(
        title="FROM",
        field="source",
        style=lambda source: None if source == "default" else "green",
    ),
    Column(title="READ-ONLY", field="read_only"),
)
_NAME_COLUMNS = (Column(title="NAME", field="name"),)
_QUOTA_COLUMNS = (
    Column(title="FOR", field="entity"),
    Column(title="QUOTA", field="quota"),
    Column(title="VALUE", field="value", is_right=True),
)


@click.group("config", cls=NearestGroup)
def command() -> None:
    """Settings: list, describe, set, delete.

    KIND is topic, broker, group, logger or client-metrics; NAME is the topic, the broker's id, the
    group, the subscription to clients' metrics. For the default of all brokers leave the name out.
    'config describe clients' shows quotas.
    """


@command.command("list")
@click.argument("kind", type=click.Choice(KINDS[:-1]))
@with_output
@with_connection
def list_resources(kind: str, connection: Connection, output: Output) -> None:
    """Name what there is of a kind; groups and client-metrics where something is set."""

    async def work(admin: Admin) -> list[dict[str, Any]]:
        listed = await admin.configs.list_resources([_resource_type(kind)])
        return [{"name": name} for name in sorted(resource.name for resource in listed)]

    output.rows(connection.run_admin(work), _NAME_COLUMNS, empty=f"There are no {kind} settings.")


@command.command("describe")
@click.argument("kind", type=click.Choice(KINDS))
@click.argument("name", required=False, shell_complete=complete_config_names)
@click.option("--all", "with_defaults", is_flag=True, help="Show settings at their default, too.")
@with_output
@with_connection
def describe(
    kind: str, name: str | None, with_defaults: bool, connection: Connection, output: Output
) -> None:
    """Show settings, by default those that are set."""

    async def work(admin: Admin) -> list[dict[str, Any]]:
        from barnabas_client.facts.config_facts import entry_data

        resource = await _resource(admin, kind, name)
        entries = (await admin.configs.describe([resource])).unwrap()[resource]
        return [
            entry_data(entry)
            for entry in sorted(entries.values(), key=lambda entry: entry.name)
            if with_defaults or not entry.is_default
        ]

    if kind == "clients":
        _describe_quotas(connection, output)
        return
    rows = connection.run_admin(work)
    output.rows(rows, _COLUMNS, empty="Nothing is set: --all shows the defaults.")


@command.command("set")
@click.argument("kind", type=click.Choice(KINDS[:-1]))
@click.argument("name_and_settings", nargs=-1, required=True, metavar="[NAME] KEY=VALUE...")
@with_connection
def set_configs(kind: str, name_and_settings: tuple[str, ...], connection: Connection) -> None:
    """Set settings of one resource; its others stay as they are."""
    name, settings = _split_name(name_and_settings)
    pairs = setting_values(settings, "config set")
    if not pairs:
        raise click.UsageError("Give the settings to set, as KEY=VALUE.")

    async def work(admin: Admin) -> None:
        from barnabas_client.admin.values.configs import ConfigChange

        resource = await _resource(admin, kind, name)
        await check_setting_names(admin, resource, pairs)
        changes = [ConfigChange.set(key, value) for key, value in pairs.items()]
        (await admin.configs.alter({resource: changes})).unwrap()
        click.echo(f"{resource}: {', '.join(f'{key}={value}' for key, value in pairs.items())}")

    connection.run_admin(work)


@command.command("delete")
@click.argument("kind", type=click.Choice(KINDS[:-1]))
@click.argument("name", shell_complete=complete_config_names)
@click.argument("keys", nargs=-1, required=True)
@with_connection
def delete_configs(kind: str, name: str, keys: tuple[str, ...], connection: Connection) -> None:
    """Reset settings to their default. For the default of all brokers NAME is 'all'."""

    async def work(admin: Admin) -> None:
        from barnabas_client.admin.values.configs import ConfigChange

        resource = await _resource(admin, kind, name)
        await check_setting_names(admin, resource, keys)
        (await admin.configs.alter({resource: [ConfigChange.delete(key) for key in keys]})).unwrap()
        click.echo(f"{resource}: {', '.join(keys)} by default")

    connection.run_admin(work)


def _split_name(words: tuple[str, ...]) -> tuple[str | None, tuple[str, ...]]:
    """The name is the first word, unless that is a setting already."""
    return (None, words) if "=" in words[0] else (words[0], words[1:])


async def _resource(admin: Admin, kind: str, name: str | None) -> ConfigResource:
    """The resource of this kind and name. Raises: CommandError, click.UsageError."""
    from barnabas_client.admin.values.configs import ConfigResource
    from barnabas_client.facts.topic_facts import describe_topics

    if kind == "topic" and name is not None:
        await describe_topics(admin, [name])
        return ConfigResource.topic(name)
    if kind == "broker" and name in (None, "all"):
        return ConfigResource.broker()
    if name is None:
        raise click.UsageError(f"Say which {kind} is meant.")
    if kind in ("broker", "logger"):
        ids = {str(broker.node_id) for broker in (await admin.cluster.describe()).brokers}
        if name not in ids:
            raise CommandError(f"No such broker '{name}'.{hint(name, ids)}")
    return ConfigResource(_resource_type(kind), name)


def _resource_type(kind: str) -> ResourceType:
    from barnabas_client.admin.values.configs import ResourceType

    return {
        "topic": ResourceType.TOPIC,
        "broker": ResourceType.BROKER,
        "group": ResourceType.GROUP,
        "logger": ResourceType.BROKER_LOGGER,
        "client-metrics": ResourceType.CLIENT_METRICS,
    }[kind]


def _describe_quotas(connection: Connection, output: Output) -> None:
    async def work(admin: Admin) -> list[dict[str, Any]]:
        quotas = await admin.quotas.list()
        return [
            {"entity": str(entity), "quota": key, "value": value}
            for entity, values in quotas.items()
            for key, value in values.items()
        ]

    output.rows(connection.run_admin(work), _QUOTA_COLUMNS, empty="There are no quotas.")
