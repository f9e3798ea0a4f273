"""How a command reaches the cluster: options, settings, and running its coroutine.

Not here: what a properties file means (the client), which profiles there are (`profiles.py`).

Invariants: no command waits for a cluster that is not there longer than `--api-timeout`; where
nobody listens at any of the addresses it says so at once.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import os
import signal
import socket
from collections.abc import Callable, Coroutine, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeVar

import click

from barnabas_cli.failures import TERMINATED, CommandError
from barnabas_cli.groups import Invocation

if TYPE_CHECKING:
    from barnabas_client.admin.admin import Admin
    from barnabas_client.config.admin_settings import AdminSettings
    from barnabas_client.consumer.consumer import Consumer
    from barnabas_client.producer.producer import Producer
    from barnabas_client.share.share_consumer import ShareConsumer

DEFAULT_BOOTSTRAP = "127.0.0.1:9092"
DEFAULT_TIMEOUT_SECONDS = 15.0
_PROBE_SECONDS = 3.0

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class Connection:
    """Where the cluster is and how to talk to it; `settings` are the client's."""

    bootstrap_servers: str
    timeout_ms: int
    settings: Mapping[str, Any] = field(default_factory=dict)

    @property
    def is_explicit(self) -> bool:
        """Whether a command to be repeated must name the brokers again."""
        return self.bootstrap_servers != DEFAULT_BOOTSTRAP

    def admin(self) -> Admin:
        """An administrative client; connect with `async with`."""
        from barnabas_client.admin.admin import Admin

        settings = self._settings("ADMIN", client_id="barnabas-cli")
        return Admin(self.bootstrap_servers, **settings)

    def producer(self, **settings: Any) -> Producer:
        """A producer; the settings given here win over those of the file."""
        from barnabas_client.producer.producer import Producer

        return Producer(self.bootstrap_servers, **self._settings("PRODUCER", **settings))

    def consumer(self, **settings: Any) -> Consumer:
        """A consumer; the settings given here win over those of the file."""
        from barnabas_client.consumer.consumer import Consumer

        return Consumer(self.bootstrap_servers, **self._settings("CONSUMER", **settings))

    def share_consumer(self, **settings: Any) -> ShareConsumer:
        """A share consumer; the settings given here win over those of the file."""
        from barnabas_client.share.share_consumer import ShareConsumer

        chosen = self._settings("SHARE_CONSUMER", **settings)
        return ShareConsumer(self.bootstrap_servers, **chosen)

    def run(self, work: Callable[[], Coroutine[Any, Any, T]]) -> T:
        """Run a command's coroutine to its end."""

        async def probed() -> T:
            task = asyncio.current_task()
            assert task is not None
            # As Ctrl-C does: what is open is closed, and a group need not wait for a dead member.
            asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, task.cancel)
            await self._probe()
            return await work()

        try:
            return asyncio.run(probed())
        except asyncio.CancelledError:
            raise click.exceptions.Exit(TERMINATED) from None

    def run_admin(self, work: Callable[[Admin], Coroutine[Any, Any, T]]) -> T:
        """Run a coroutine that needs nothing but an administrative client."""

        async def connected() -> T:
            async with self.admin() as admin:
                return await work(admin)

        return self.run(connected)

    def admin_settings(self) -> AdminSettings:
        """What `admin` is made with, checked. Raises: ConfigurationError."""
        from barnabas_client.config.admin_settings import AdminSettings

        given = {"bootstrap_servers": self.bootstrap_servers, **self._settings("ADMIN")}
        return AdminSettings.create(given)

    def _settings(self, role: str, **settings: Any) -> dict[str, Any]:
        from barnabas_client.config.roles import Role, settings_for

        given = settings_for(Role[role], self.settings)
        return {"default_api_timeout_ms": self.timeout_ms, **given, **settings}

    async def _probe(self) -> None:
        """Fail at once if no broker listens: the client would retry until its timeout."""
        from barnabas_client.config.client_settings import parse_address

        try:
            addresses = [parse_address(server) for server in self.bootstrap_servers.split(",")]
        except ValueError as error:
            raise click.UsageError(f"--bootstrap-server: {error}") from None
        failures = await asyncio.gather(*(_failure(*address) for address in addresses))
        certain = [failure for failure in failures if failure is not None]
        if len(certain) == len(failures):
            raise CommandError(
                f"no broker responds at {self.bootstrap_servers}{''.join(dict.fromkeys(certain))}:"
                " start one ('barnabas dev') or name another with --bootstrap-server HOST:PORT"
            )


async def _failure(host: str, port: int) -> str | None:
    """Why nobody is there, where that is certain; what takes long may still come.

    The text is empty where nobody listens, which needs no words.
    """
    try:
        async with asyncio.timeout(_PROBE_SECONDS):
            _, writer = await asyncio.open_connection(host, port)
    except TimeoutError:
        return None
    except socket.gaierror:
        return f" (the name {host} does not resolve)"
    except OSError:
        return ""
    writer.close()
    with contextlib.suppress(OSError):
        await writer.wait_closed()
    return None


def with_connection(function: Callable[..., None]) -> Callable[..., None]:
    """Give a command the options of a connection, and the argument `connection`."""

    @click.option(
        "-b",
        "--bootstrap-server",
        "--bootstrap-servers",
        "bootstrap_servers",
        metavar="HOST:PORT,...",
        help=f"Brokers to find the cluster through.  [default: {DEFAULT_BOOTSTRAP};"
        " env: BARNABAS_BOOTSTRAP_SERVERS]",
    )
    @click.option(
        "--command-config",
        type=click.Path(exists=True, dir_okay=False),
        help="A properties file with the client's settings, as Kafka's tools take it."
        "  [env: BARNABAS_COMMAND_CONFIG]",
    )
    @click.option(
        "--profile",
        metavar="NAME",
        shell_complete=_complete_profiles,
        help="A connection of ~/.config/barnabas/config.toml.  [env: BARNABAS_PROFILE]",
    )
    @click.option(
        "--api-timeout",
        "timeout_seconds",
        type=click.FloatRange(min=0.1),
        default=DEFAULT_TIMEOUT_SECONDS,
        show_default=True,
        help="Timeout in seconds.",
    )
    @click.option("--debug", is_flag=True, help="Show the traceback of an error.")
    @functools.wraps(function)
    def wrapper(
        *args: Any,
        bootstrap_servers: str | None,
        command_config: str | None,
        profile: str | None,
        timeout_seconds: float,
        debug: bool,
        **kwargs: Any,
    ) -> None:
        invocation = click.get_current_context().find_object(Invocation) or Invocation()
        invocation.is_debugging = invocation.is_debugging or debug
        connection = connect(
            bootstrap_servers or invocation.bootstrap_servers,
            command_config or invocation.command_config,
            round(timeout_seconds * 1000),
            profile=profile or invocation.profile,
        )
        function(*args, connection=connection, **kwargs)

    return wrapper


def _environment(name: str) -> str | None:
    return os.environ.get(f"BARNABAS_{name}") or None


def _complete_profiles(_: click.Context, __: click.Parameter, incomplete: str) -> list[str]:
    from barnabas_cli.profiles import profile_names

    return [name for name in profile_names() if name.startswith(incomplete)]


def connect(
    bootstrap_servers: str | None,
    command_config: str | None,
    timeout_ms: int,
    *,
    profile: str | None = None,
) -> Connection:
    """The connection that options mean, else the environment, else the file or the profile.

    A properties file and a profile are not mixed, unless the profile names the file.
    Raises: CommandError or ConfigurationError for a file that cannot be used; click.UsageError.
    """
    if command_config is not None and profile is not None:
        raise click.UsageError("Give --command-config or --profile, not both.")
    bootstrap_servers = bootstrap_servers or _environment("BOOTSTRAP_SERVERS")
    if command_config is None and profile is None:
        command_config = _environment("COMMAND_CONFIG")
        profile = None if command_config else _environment("PROFILE")
    settings: dict[str, Any] = {}
    if command_config is not None:
        from barnabas_client.config.properties_file import settings_from_file

        settings = settings_from_file(command_config)
    elif profile is not None or bootstrap_servers is None:
        settings = _settings_of_profile(profile)
    in_file = settings.pop("bootstrap_servers", None)
    return Connection(
        bootstrap_servers=bootstrap_servers or in_file or DEFAULT_BOOTSTRAP,
        timeout_ms=timeout_ms,
        settings=settings,
    )


def _settings_of_profile(name: str | None) -> dict[str, Any]:
    from barnabas_cli.profiles import config_path, find_profile

    if name is None and not config_path().exists():
        return {}
    found = find_profile(name)
    if found is None:
        return {}
    from barnabas_client.config.properties_file import client_settings_in, settings_from_file

    in_file = {} if found.command_config is None else settings_from_file(found.command_config)
    return in_file | client_settings_in(found.settings)
