"""Names and settings from the command line, checked against the cluster with the nearest match."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from types import FrameType
from typing import TYPE_CHECKING, Any

import click

from barnabas_cli.failures import FAILED, TERMINATED, CommandError
from barnabas_protocol.settings.suggestions import hint
from barnabas_protocol.settings.units import without_unit

if TYPE_CHECKING:
    from barnabas_client.admin.admin import Admin
    from barnabas_client.admin.values.configs import ConfigResource
    from barnabas_client.errors import BarnabasError


async def require_groups(admin: Admin, group_ids: Sequence[str]) -> None:
    """Check that the groups exist. Raises: CommandError naming the nearest of an unknown one."""
    known = {listing.group_id for listing in await admin.groups.list()}
    for group_id in group_ids:
        if group_id not in known:
            raise CommandError(f"No such group '{group_id}'.{hint(group_id, known)}")


async def require_share_groups(admin: Admin, group_ids: Sequence[str]) -> None:
    """Check that the groups exist and are share groups. Raises: CommandError; as above."""
    from barnabas_client.admin.values.groups import GroupType
    from barnabas_client.facts.command_lines import command_line

    listed = {listing.group_id: listing for listing in await admin.groups.list()}
    shared = {name for name, listing in listed.items() if listing.type is GroupType.SHARE}
    for group_id in group_ids:
        if group_id in shared:
            continue
        if group_id in listed:
            describe = command_line("group describe", group_id)
            raise CommandError(f"'{group_id}' is no share group: see '{describe}'")
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


def explain_topic_settings(names: Iterable[str], error: BarnabasError) -> None:
    """Name the nearest setting where a topic was refused for one that there is not.

    The names are those of Barnabas, which are Kafka's. Raises: CommandError.
    """
    from barnabas_broker.config.topic_settings import BY_KEY
    from barnabas_protocol.errors import ErrorCode

    unknown = [name for name in names if name not in BY_KEY]
    if error.code == ErrorCode.INVALID_CONFIG and unknown:
        raise CommandError(
            f"No such setting '{unknown[0]}' of topics.{hint(unknown[0], BY_KEY)}"
        ) from error


def setting_values(settings: Sequence[str], option: str) -> dict[str, str]:
    """The pairs of an option of settings; times and sizes may have units: `7d`, `1GiB`.

    Raises: click.UsageError.
    """
    values = {}
    for key, value in key_values(settings, option).items():
        try:
            values[key] = without_unit(key, value)
        except ValueError as error:
            raise click.UsageError(f"{option} {key}: {error}") from None
    return values


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


@contextmanager
def question_in_loop() -> Iterator[None]:
    """For a question inside of an event loop: Ctrl-C and SIGTERM end it.

    The loop's own handlers cancel a task, which stands at the question and does not notice.
    Raises: KeyboardInterrupt, click.exceptions.Exit.
    """
    before = {
        signal.SIGINT: signal.signal(signal.SIGINT, signal.default_int_handler),
        signal.SIGTERM: signal.signal(signal.SIGTERM, _end),
    }
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _end(_number: int, _frame: FrameType | None) -> None:
    raise click.exceptions.Exit(TERMINATED)


def with_confirmation(function: Callable[..., None]) -> Callable[..., None]:
    """Give a command the option --yes, and the argument `is_confirmed`."""
    option: Any = click.option(
        "-y", "--yes", "is_confirmed", is_flag=True, help="Do not ask for confirmation."
    )
    wrapped: Callable[..., None] = option(function)
    return wrapped
