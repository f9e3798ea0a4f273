"""Log-ins on a running broker: SASL_PLAINTEXT, with users whose credentials the cluster stores."""

import asyncio
import threading
from contextlib import AbstractAsyncContextManager
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest

from barnabas_broker.config.definitions import ConfigError
from barnabas_broker.handlers.alter_user_scram_credentials import LOOP_UPSERTIONS_MAX
from barnabas_broker.network.logins import LOOP_CREDENTIALS_MAX
from barnabas_broker.security.credentials import ScramCredentials
from barnabas_broker.server import Server
from barnabas_client.admin import Admin
from barnabas_client.admin.values.scram import ScramDeletion, ScramMechanism, ScramUpsertion
from barnabas_client.errors import AuthenticationError
from barnabas_client.network import Client
from barnabas_protocol.connection.sasl import salted_password, scram
from tests.support.in_process_broker import running_broker
from tests.support.login_bench import credential
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


def test_a_whole_new_image_ends_connections_too(tmp_path: Path) -> None:
    """SEC-30: a broker that was behind gets the metadata at once, and not what has changed."""
    settings = LISTENERS | {"barnabas.sasl.disconnect.on.credential.change": "true"}

    async def run() -> None:
        async with running_broker(tmp_path, **settings) as server:
            await change(
                server,
                ScramUpsertion(user="alice", mechanism=ScramMechanism.SHA_512, password="right"),
                ScramUpsertion(user="bob", mechanism=ScramMechanism.SHA_512, password="right"),
            )
            stage = server.logins.stages["SASL"]
            alice, bob = Mock(mechanism="SCRAM-SHA-512"), Mock(mechanism="SCRAM-SHA-512")
            stage.joined(alice, "alice")
            stage.joined(bob, "bob")
            kept = dict(server.image.scram_credentials)
            await server.logins.update(kept, server.image.decoy_secret, None)
            alice.end.assert_not_called()
            del kept["alice", 2]
            await server.logins.update(kept, server.image.decoy_secret, None)
            alice.end.assert_called_once()
            bob.end.assert_not_called()

    asyncio.run(run())


def test_very_many_credentials_are_taken_over_beside_the_loop(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """SEC-44: 50,000 of them held the loop up for 240 ms when a broker started."""
    threads = []
    prepared = ScramCredentials.prepared

    def prepare(*arguments: Any) -> Any:
        threads.append(threading.current_thread())
        return prepared(*arguments)

    monkeypatch.setattr(ScramCredentials, "prepared", prepare)
    some = [credential(f"u{number}", "right") for number in range(2)]
    many = {
        (f"{number}", 2): replace(some[number % 2], user=f"{number}")
        for number in range(LOOP_CREDENTIALS_MAX + 1)
    }

    async def run() -> None:
        async with running_broker(tmp_path, **LISTENERS) as server:
            await server.logins.update(many, b"secret", None)
            for user in ("0", str(LOOP_CREDENTIALS_MAX)):
                async with connected(server, user, "right"):
                    pass
            await server.logins.update({}, b"secret", [("0", 2)])
            with pytest.raises(AuthenticationError):
                async with connected(server, "0", "right"):
                    pass

    asyncio.run(run())
    (thread,) = threads
    assert thread is not threading.main_thread()


def test_a_client_hashes_its_password_in_a_thread(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """SEC-100: the server says how often, and a client's loop has other things to do."""
    threads = []

    def salted(*arguments: Any) -> bytes:
        threads.append(threading.current_thread())
        return salted_password(*arguments)

    async def run() -> None:
        async with running_broker(tmp_path, **LISTENERS) as server:
            await change(
                server,
                ScramUpsertion(user="alice", mechanism=ScramMechanism.SHA_512, password="right"),
            )
            monkeypatch.setattr(scram, "salted_password", salted)
            async with connected(server, "alice", "right"):
                assert threads
                assert threading.main_thread() not in threads
            with pytest.raises(AuthenticationError):
                async with connected(server, "alice", "wrong"):
                    pass

    asyncio.run(run())


def test_very_many_users_are_stored_at_once(tmp_path: Path) -> None:
    """SEC-25: what is kept of passwords is derived in a thread, the outcome is the same."""
    users = [f"user-{number}" for number in range(LOOP_UPSERTIONS_MAX + 1)]

    async def run() -> None:
        async with running_broker(tmp_path, **LISTENERS) as server:
            upsertions = [
                ScramUpsertion(user=user, mechanism=ScramMechanism.SHA_512, password=user)
                for user in users
            ]
            await change(server, *upsertions)
            assert len(server.image.scram_credentials) == len(users)
            async with connected(server, users[-1], users[-1]):
                pass

    asyncio.run(run())
