"""Log-ins on a running broker: SASL_PLAINTEXT, with users whose credentials the cluster stores."""

import asyncio
from contextlib import AbstractAsyncContextManager
from pathlib import Path

import pytest

from barnabas_broker.config.definitions import ConfigError
from barnabas_broker.server import Server
from barnabas_client.admin import Admin
from barnabas_client.admin.values.scram import ScramDeletion, ScramMechanism, ScramUpsertion
from barnabas_client.errors import AuthenticationError
from barnabas_client.network import Client
from tests.support.in_process_broker import running_broker
from tests.support.sasl_brokers import LISTENERS, MECHANISMS, logged_in, sessions


def connected(
    server: Server, user: str, password: str, mechanism: str = "SCRAM-SHA-512"
) -> AbstractAsyncContextManager[Client]:
    return logged_in(server, sasl_mechanism=mechanism, sasl_username=user, sasl_password=password)


async def change(server: Server, *changes: ScramUpsertion | ScramDeletion) -> None:
    """Store or remove credentials by the listener without log-in."""
    async with Admin(bootstrap_servers=f"127.0.0.1:{server.port}") as admin:
        (await admin.scram.alter(changes)).unwrap()


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_a_stored_user_logs_in_by_every_mechanism(tmp_path: Path, mechanism: str) -> None:
    """SEC-20, SEC-23, SEC-24, SEC-25: and becomes the principal of the connection."""

    async def run() -> None:
        async with running_broker(tmp_path, **LISTENERS) as server:
            await change(
                server,
                ScramUpsertion(user="alice", mechanism=ScramMechanism.SHA_256, password="right"),
                ScramUpsertion(user="alice", mechanism=ScramMechanism.SHA_512, password="right"),
            )
            async with connected(server, "alice", "right", mechanism) as client:
                assert client.cluster.nodes
                names = {str(session.principal) for session in sessions(server)}
                assert names == {"User:alice"}
            for user, password in (("alice", "wrong"), ("nobody", "right")):
                with pytest.raises(AuthenticationError):
                    async with connected(server, user, password, mechanism):
                        pass
            assert server.logins.metrics.logins[mechanism] >= 1
            assert server.logins.metrics.failures[mechanism] >= 2

    asyncio.run(run())


def test_the_first_users_come_from_a_file(tmp_path: Path) -> None:
    """SEC-61: while the cluster has no credentials, and never again."""
    file = tmp_path / "users"
    file.write_text("# who may do all\nadmin=a=secret\n")
    settings = LISTENERS | {"barnabas.bootstrap.users.file": str(file)}

    async def run() -> None:
        async with running_broker(tmp_path / "data", **settings) as server:
            for mechanism in MECHANISMS:
                async with connected(server, "admin", "a=secret", mechanism):
                    pass
        file.write_text("other=secret\n")
        async with running_broker(tmp_path / "data", **settings) as server:
            async with connected(server, "admin", "a=secret"):
                pass
            with pytest.raises(AuthenticationError):
                async with connected(server, "other", "secret"):
                    pass
        file.unlink()
        async with (
            running_broker(tmp_path / "data", **settings) as server,
            connected(server, "admin", "a=secret"),
        ):
            pass

    asyncio.run(run())


@pytest.mark.parametrize("text", ["admin\n", "admin=\n", "=secret\n", "a=b\na=c\n", None])
def test_a_broker_does_not_start_without_its_first_users(tmp_path: Path, text: str | None) -> None:
    """SEC-61: a cluster that nobody can log in to is told at once, without showing the line."""
    file = tmp_path / "users"
    if text is not None:
        file.write_text(text)
    settings = LISTENERS | {"barnabas.bootstrap.users.file": str(file)}

    async def run() -> None:
        with pytest.raises(ConfigError, match=r"barnabas\.bootstrap\.users\.file") as raised:
            async with running_broker(tmp_path / "data", **settings):
                pass
        assert "secret" not in str(raised.value)

    asyncio.run(run())
