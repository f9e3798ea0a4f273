"""Names and settings from the command line, checked against the cluster with the nearest match."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import click

from barnabas_cli.failures import FAILED, CommandError
from barnabas_cli.suggestions import hint

if TYPE_CHECKING:
    from barnabas_client.admin.admin import Admin
    from barnabas_client.admin.values.configs import ConfigResource
    from barnabas_client.admin.values.topics import TopicDescription


async def describe_topics(admin: Admin, names: Sequence[str]) -> dict[str, TopicDescription]:
    """The topics of these names. Raises: CommandError naming the nearest of an unknown one."""
    from barnabas_client.errors import NotFoundError

    described = await admin.topics.describe(names)
    for name, error in described.errors.items():
        if isinstance(error, NotFoundError):
            known = [listing.name for listing in await admin.topics.list()]
            raise CommandError(f"No such topic '{name}'.{hint(name, known)}") from error
    return described.unwrap()


def check_partitions(topic: TopicDescription, numbers: Iterable[int]) -> None:
    """Refuse numbers of partitions that the topic does not have. Raises: CommandError."""
    missing = set(numbers) - topic.partitions.keys()
    if missing:
        raise CommandError(
            f"'{topic.name}' has no partition {min(missing)}: there are 0 to"
            f" {max(topic.partitions)}"
        )


async def require_groups(admin: Admin, group_ids: Sequence[str]) -> None:
    """Check that the groups exist. Raises: CommandError naming the nearest of an unknown one."""
    known = {listing.group_id for listing in await admin.groups.list()}
    for group_id in group_ids:
        if group_id not in known:
            raise CommandError(f"No such group '{group_id}'.{hint(group_id, known)}")


async def require_share_groups(admin: Admin, group_ids: Sequence[str]) -> None:
    """Check that the groups exist and are share groups. Raises: CommandError; as above."""
    from barnabas_client.admin.values.groups import GroupType

    listed = {listing.group_id: listing for listing in await admin.groups.list()}
    shared = {name for name, listing in listed.items() if listing.type is GroupType.SHARE}
    for group_id in group_ids:
        if group_id in shared:
            continue
        if group_id in listed:
            raise CommandError(
                f"'{group_id}' is no share group: see 'barnabas group describe {group_id}'"
            )
        raise CommandError(f"No such share group '{group_id}'.{hint(group_id, shared)}")


async def check_setting_names(admin: Admin, resource: ConfigResource, names: Iterable[str]) -> None:
    """Refuse an unknown setting with the nearest name, where the cluster lists what there is.

    Raises: CommandError.
    """
    from barnabas_client.admin.values.configs import ResourceType

    listed = (ResourceType.TOPIC, ResourceType.GROUP, ResourceType.CLIENT_METRICS)
    if resource.type not in listed:
        return
    known = (await admin.configs.describe([resource])).unwrap()[resource]
    for key in names:
        if known and key not in known:
            raise CommandError(f"No such setting '{key}' of {resource}.{hint(key, known)}")


def key_values(settings: Sequence[str], option: str) -> dict[str, str]:
    """The pairs of an option that is given as KEY=VALUE. Raises: click.UsageError."""
    pairs = {}
    for setting in settings:
        key, separator, value = setting.partition("=")
        if not separator or not key.strip():
            raise click.UsageError(f"{option} takes KEY=VALUE, not '{setting}'")
        pairs[key.strip()] = value.strip()
    return pairs


def given_options(options: Mapping[str, Any]) -> dict[str, Any]:
    """The options that were given: a number 0 was, a switch that is off was not."""
    return {
        name: value for name, value in options.items() if value is not None and value is not False
    }


def confirm(question: str, *, is_confirmed: bool) -> None:
    """Ask on a terminal; a script must use --yes. Raises: click.UsageError, click.Abort."""
    import sys

    if is_confirmed:
        return
    if not sys.stdin.isatty():
        raise click.UsageError(f"{question} Use --yes to confirm.")
    if not click.confirm(question):
        click.echo("Nothing was changed.", err=True)
        raise click.exceptions.Exit(FAILED)


def with_confirmation(function: Callable[..., None]) -> Callable[..., None]:
    """Give a command the option --yes, and the argument `is_confirmed`."""
    option: Any = click.option(
        "-y", "--yes", "is_confirmed", is_flag=True, help="Do not ask for confirmation."
    )
    wrapped: Callable[..., None] = option(function)
    return wrapped
