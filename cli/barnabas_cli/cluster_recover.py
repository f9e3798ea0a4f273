"""`barnabas cluster recover`: shows what would be lost, and makes one broker the only member.

What it changes is in `barnabas_broker.offline.unsafe_recovery`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from pathlib import Path

import click

from barnabas_broker.arbiter.arbiter import ArbiterError
from barnabas_broker.arbiter.election import ForeignClusterError
from barnabas_broker.config.definitions import ConfigError
from barnabas_broker.config.parse import BrokerConfig, parse_properties
from barnabas_broker.log.manager.log_directory import LogDirectoryLockedError
from barnabas_broker.log.manager.log_identity import IdentityError
from barnabas_broker.metadata.metadata_log import MetadataLogError
from barnabas_broker.offline.unsafe_recovery import Standing, fence_others, unsafe_recovery
from barnabas_cli.data_owner import given_to_owner
from barnabas_cli.failures import CommandError
from barnabas_cli.lookups import question_in_loop

_REFUSALS = (
    ArbiterError,
    ConfigError,
    ForeignClusterError,
    IdentityError,
    LogDirectoryLockedError,
    MetadataLogError,
    OSError,
)


def recover_cluster(config_path: Path, settings: Mapping[str, str], *, is_confirmed: bool) -> None:
    """Make the stopped broker the only member of the metadata log, after asking.

    Raises: CommandError where that cannot be, or is not confirmed.
    """
    text = config_path.read_text(encoding="utf-8")
    try:
        config = BrokerConfig.parse({**parse_properties(text), **settings})
        with given_to_owner(map(Path, (*config.log_dirs, config.metadata_log_dir))):
            asyncio.run(_recover(config, is_confirmed=is_confirmed))
    except _REFUSALS as error:
        raise CommandError(str(error)) from error


async def _recover(config: BrokerConfig, *, is_confirmed: bool) -> None:
    async with unsafe_recovery(config) as resort:
        standing = resort.standing
        _show(standing)
        is_alone = not standing.other_members and standing.stored.record is not None
        if is_alone:
            click.echo(
                f"Broker {standing.me.node_id} is the only member already: what follows from that"
                " is done once more."
            )
        if not is_confirmed:
            _ask(standing)
        if not is_alone:
            await resort.carry_out()
    await fence_others(config)
    click.echo(
        f"Broker {standing.me.node_id} is now the only member. Start it first, then the others:"
        " those that come back follow it, and become members again. Partitions that stay without"
        " a leader had their newest records on lost disks only: electing an unclean leader is what"
        " is left for them."
    )


def _show(standing: Standing) -> None:
    record = standing.stored.record
    click.echo(f"cluster {standing.cluster_id}")
    if record is None:
        click.echo("the arbiter has no record")
    else:
        leader = "nobody" if record.leader is None else f"broker {record.leader.node_id}"
        members = ", ".join(str(member.node_id) for member in record.members)
        click.echo(
            f"the arbiter says: epoch {record.controller_epoch}, led by {leader},"
            f" members on brokers {members}"
        )
    click.echo(
        f"broker {standing.me.node_id} has: last epoch {standing.last_epoch}, records up to offset"
        f" {standing.end_offset}, promised epoch {standing.promised_epoch}"
    )


def _ask(standing: Standing) -> None:
    lost = ", ".join(map(str, standing.other_members)) or "none"
    click.secho(
        f"This drops the members on brokers {lost}. Metadata that only they have is LOST: topics,"
        " settings and leaders as they were decided last. Where one of them can still be started"
        " with its disk, start it instead, until there is a majority.",
        fg="red",
        err=True,
    )
    with question_in_loop():
        typed = click.prompt("Type the cluster's id to continue", err=True)
    if typed.strip() != standing.cluster_id:
        raise CommandError("that is not the cluster's id: nothing was changed")
