"""`barnabas topic`: list, describe, create, alter, delete.

Not here: what is known of a topic (`topic_facts.py`), declared topics (`apply.py`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from barnabas_cli.completion import complete_topics
from barnabas_cli.connection import Connection, with_connection
from barnabas_cli.groups import NearestGroup
from barnabas_cli.lookups import (
    check_setting_names,
    confirm,
    explain_topic_settings,
    setting_values,
    with_confirmation,
)
from barnabas_cli.output import Column, Output, bad_if_any, bytes_text, counted, with_output

if TYPE_CHECKING:
    from barnabas_client.admin.admin import Admin
    from barnabas_protocol.ids import Uuid

_LIST_COLUMNS = (
    Column(title="TOPIC", field="topic"),
    Column(title="PARTITIONS", field="partitions", is_right=True),
    Column(title="REPLICAS", field="replicas", is_right=True),
    Column(title="LEADERS", field="leaders", is_right=True),
    Column(title="UNDER-REPLICATED", field="under_replicated", is_right=True, style=bad_if_any),
    Column(title="OFFLINE", field="offline", is_right=True, style=bad_if_any),
)
_PARTITION_COLUMNS = (
    Column(title="PARTITION", field="partition", is_right=True),
    Column(
        title="LEADER",
        field="leader",
        is_right=True,
        style=lambda leader: "red" if leader is None else None,
    ),
    Column(title="REPLICAS", field="replicas"),
    Column(title="IN SYNC", field="in_sync"),
    Column(title="ELIGIBLE", field="eligible"),
    Column(title="START", field="start_offset", is_right=True),
    Column(title="END", field="end_offset", is_right=True),
    Column(title="RECORDS", field="records", is_right=True),
    Column(title="SIZE", field="size_bytes", text=bytes_text, is_right=True),
)


@click.group("topic", cls=NearestGroup)
def command() -> None:
    """Topics: list, describe, create, alter, delete."""


@command.command("list")
@click.option("--all", "with_internal", is_flag=True, help="Include internal topics.")
@with_output
@with_connection
def list_topics(with_internal: bool, connection: Connection, output: Output) -> None:
    """List topics with the health of their partitions."""
    from barnabas_client.facts.topic_facts import summary

    async def work(admin: Admin) -> list[dict[str, Any]]:
        listings = await admin.topics.list(include_internal=with_internal)
        described = await admin.topics.describe([listing.name for listing in listings])
        return [summary(topic) for topic in described.successes.values()]

    rows = connection.run_admin(work)
    output.rows(rows, _LIST_COLUMNS, empty="There are no topics: create one with 'topic create'.")


@command.command("describe")
@click.argument("topics", nargs=-1, required=True, shell_complete=complete_topics)
@with_output
@with_connection
def describe(topics: tuple[str, ...], connection: Connection, output: Output) -> None:
    """Show partitions with leaders, replicas, offsets and sizes, and the topic's own settings."""
    from barnabas_client.facts import topic_facts

    async def work(admin: Admin) -> list[dict[str, Any]]:
        return await topic_facts.details(admin, await topic_facts.describe_topics(admin, topics))

    answer = connection.run_admin(work)
    if not output.is_table:
        output.data(answer)
        return
    for number, topic in enumerate(answer):
        if number:
            click.echo()
        rows = topic["partition_list"]
        records = sum(row["records"] or 0 for row in rows)
        size = sum(row["size_bytes"] or 0 for row in rows)
        click.echo(
            f"{click.style(topic['topic'], bold=True)}  id {topic['topic_id'] or '-'},"
            f" {counted(topic['partitions'], 'partition')},"
            f" {counted(topic['replicas'], 'replica')},"
            f" {counted(records, 'record')}, {bytes_text(size)}"
        )
        for key, value in topic["config"].items():
            click.echo(f"  {key}={value}")
        output.rows(rows, _PARTITION_COLUMNS)


@command.command("create")
@click.argument("topics", nargs=-1, required=True)
@click.option("-p", "--partitions", type=click.IntRange(min=1), help="[default: the broker's]")
@click.option(
    "-r",
    "--replicas",
    "--replication-factor",
    type=click.IntRange(min=1, max=32767),
    help="Number of replicas of each partition.  [default: the broker's]",
)
@click.option("-c", "--config", "settings", multiple=True, metavar="KEY=VALUE", help="A setting.")
@click.option("--if-not-exists", is_flag=True, help="Do not fail if a topic exists.")
@with_output
@with_connection
def create(
    topics: tuple[str, ...],
    partitions: int | None,
    replicas: int | None,
    settings: tuple[str, ...],
    if_not_exists: bool,
    connection: Connection,
    output: Output,
) -> None:
    """Create topics."""
    configs = setting_values(settings, "--config")
    _warn_of_colliding_names(topics)

    async def work(admin: Admin) -> list[dict[str, Any]]:
        from barnabas_client.admin.values.topics import BROKER_DEFAULT, NewTopic
        from barnabas_client.errors import AlreadyExistsError

        created = await admin.topics.create(
            NewTopic(
                name=topic,
                partition_count=partitions or BROKER_DEFAULT,
                replication_factor=replicas or BROKER_DEFAULT,
                configs=configs,
            )
            for topic in topics
        )
        rows = []
        for name, outcome in created.items():
            if if_not_exists and isinstance(outcome.error, AlreadyExistsError):
                rows.append({"topic": name, "created": False})
                continue
            if outcome.error is not None:
                explain_topic_settings(configs, outcome.error)
            value = outcome.unwrap()
            rows.append(
                {
                    "topic": name,
                    "created": True,
                    "partitions": value.partition_count,
                    "replicas": value.replication_factor,
                }
            )
        return rows

    answer = connection.run_admin(work)
    if not output.is_table:
        output.data(answer)
    for row in answer:
        if not row["created"]:
            output.said(f"{row['topic']} exists already")
        else:
            output.said(
                f"created {row['topic']} with {counted(row['partitions'], 'partition')},"
                f" {counted(row['replicas'], 'replica')}"
            )


def _warn_of_colliding_names(topics: tuple[str, ...]) -> None:
    """Warn of signs that brokers take for the same, as Apache Kafka's tool does (TOP-17)."""
    if any("." in topic or "_" in topic for topic in topics):
        click.echo(
            "Warning: brokers take '.' and '_' in names of topics for the same: beside a.b there"
            " can be no a_b. Use one of the two, not both.",
            err=True,
        )


@command.command("alter")
@click.argument("topic", shell_complete=complete_topics)
@click.option("-p", "--partitions", type=click.IntRange(min=1), help="The new count; never fewer.")
@click.option("-c", "--config", "settings", multiple=True, metavar="KEY=VALUE", help="Set this.")
@click.option("--delete-config", "deleted", multiple=True, metavar="KEY", help="Back to default.")
@with_connection
def alter(
    topic: str,
    partitions: int | None,
    settings: tuple[str, ...],
    deleted: tuple[str, ...],
    connection: Connection,
) -> None:
    """Add partitions to a topic or change its settings."""
    configs = setting_values(settings, "--config")
    if partitions is None and not configs and not deleted:
        raise click.UsageError("Give a change: --partitions, --config or --delete-config.")

    async def work(admin: Admin) -> None:
        from barnabas_client.admin.values.configs import ConfigChange, ConfigResource
        from barnabas_client.facts.topic_facts import describe_topics

        await describe_topics(admin, [topic])
        await check_setting_names(admin, ConfigResource.topic(topic), [*configs, *deleted])
        if partitions is not None:
            (await admin.topics.add_partitions({topic: partitions})).unwrap()
            click.echo(f"{topic} has {partitions} partitions now")
        changes = [ConfigChange.set(key, value) for key, value in configs.items()]
        changes += [ConfigChange.delete(key) for key in deleted]
        if changes:
            (await admin.configs.alter({ConfigResource.topic(topic): changes})).unwrap()
            words = [f"{key}={value}" for key, value in configs.items()]
            words += [f"{key} by default" for key in deleted]
            click.echo(f"{topic}: {', '.join(words)}")

    connection.run_admin(work)


@command.command("delete")
@click.argument("topics", nargs=-1, required=True, shell_complete=complete_topics)
@click.option("--if-exists", is_flag=True, help="Do not fail if a topic does not exist.")
@with_confirmation
@with_connection
def delete(
    topics: tuple[str, ...], if_exists: bool, is_confirmed: bool, connection: Connection
) -> None:
    """Delete topics with all their records."""

    async def find(admin: Admin) -> dict[str, Uuid]:
        from barnabas_client.facts.topic_facts import describe_topics

        if if_exists:
            listed = await admin.topics.list(include_internal=True)
            known = {listing.name: listing.topic_id for listing in listed}
            return {topic: known[topic] for topic in topics if topic in known}
        described = await describe_topics(admin, topics)
        return {topic.name: topic.topic_id for topic in described.values()}

    async def work(admin: Admin) -> None:
        from barnabas_protocol.ids import ZERO_UUID

        if is_confirmed or ZERO_UUID in found.values():
            (await admin.topics.delete(found)).unwrap()
            return
        # What was asked about may have been made anew before the answer: that stays.
        (await admin.topics.delete_by_id(found.values())).unwrap()

    found = connection.run_admin(find)
    if not found:
        click.echo("nothing to delete")
        return
    confirm(f"Delete {', '.join(found)} with all records?", is_confirmed=is_confirmed)
    connection.run_admin(work)
    for topic in found:
        click.echo(f"deleted {topic}")
