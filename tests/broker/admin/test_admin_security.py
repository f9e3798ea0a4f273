"""The admin HTTP with certificates and tokens, and its Unix socket (SEC-63)."""

import asyncio
import json
import logging
import socket
import ssl
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from click.testing import CliRunner

from barnabas_broker.admin import admin_sockets
from barnabas_broker.admin.admin_access import bearer_token, needs_caller
from barnabas_broker.admin.admin_callers import admin_callers
from barnabas_broker.admin.admin_tokens import TokenFile
from barnabas_broker.config.definitions import ConfigError
from barnabas_broker.config.parse import BrokerConfig
from barnabas_broker.env.clock import SystemClock
from barnabas_broker.server import Server
from barnabas_cli.main import main
from barnabas_protocol.connection.sasl import Accepted
from tests.support.in_process_broker import eventually, running_broker
from tests.support.processes import free_port
from tests.support.tls_files import TlsFiles

HOST = "localhost"
TOKEN = "0123456789abcdef-token"
WAIT_SECONDS = 20
ACCOUNT = "system:serviceaccount:monitoring:prometheus"
CLOSED = ["/metrics", "/status", "/none", "/"]


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> TlsFiles:
    return TlsFiles(tmp_path_factory.mktemp("tls")).create(HOST)


def secured(files: TlsFiles, directory: Path) -> dict[str, str]:
    return {
        "admin.http.protocol": "https",
        "admin.http.host": HOST,
        "admin.http.port": str(free_port()),
        "admin.http.principals": "User:CN=operator",
        "admin.http.token.file": str(directory / "tokens"),
        "admin.http.socket": str(directory / "admin.sock"),
        "listener.name.admin.barnabas.ssl.certificate.file": str(files.broker_certificate),
        "listener.name.admin.barnabas.ssl.key.file": str(files.broker_key),
        "listener.name.admin.ssl.truststore.location": str(files.authority),
    }


def context(files: TlsFiles, certificate: tuple[Path, Path] | None = None) -> ssl.SSLContext:
    made = ssl.create_default_context(cafile=str(files.authority))
    if certificate is not None:
        made.load_cert_chain(*map(str, certificate))
    return made


def port_of(server: Server) -> int:
    return server.config.admin_http_port


async def asked(
    port: int | str, path: str, method: str = "GET", *, tls: Any = None, **headers: str
) -> tuple[int, str]:
    """Status and body; the port is a path for a Unix socket."""
    async with asyncio.timeout(WAIT_SECONDS):
        if isinstance(port, str):
            reader, writer = await asyncio.open_unix_connection(port)
        else:
            reader, writer = await asyncio.open_connection(HOST, port, ssl=tls)
        lines = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
        head = f"{method} {path} HTTP/1.1\r\nHost: {HOST}\r\nConnection: close\r\n{lines}\r\n"
        writer.write(head.encode())
        answer = (await reader.read()).decode()
        writer.close()
    first, _, body = answer.partition("\r\n\r\n")
    return int(first.split()[1]), body


async def started(server: Server) -> None:
    """Wait for the admin HTTP, which comes a little later than the broker."""

    async def is_bound() -> bool:
        try:
            _, writer = await asyncio.open_connection(HOST, port_of(server))
        except ConnectionRefusedError:
            return False
        writer.close()
        return True

    await eventually(is_bound)


def test_probes_are_open_and_everything_else_is_not(tmp_path: Path, files: TlsFiles) -> None:
    """Kubelets speak HTTPS, verify nothing and show nothing."""

    async def run() -> None:
        async with running_broker(tmp_path / "data", **secured(files, tmp_path)) as server:
            await started(server)
            port, tls = port_of(server), context(files)
            assert await asked(port, "/live", tls=tls) == (200, "live\n")
            assert await asked(port, "/ready", tls=tls) == (200, "ready\n")
            for path in CLOSED:
                assert (await asked(port, path, tls=tls))[0] == 401, path
            for path in ("/drain", "/undrain", "/live", "/ready"):
                assert (await asked(port, path, "POST", tls=tls))[0] == 401, path
            assert server.is_ready
            with pytest.raises((ConnectionError, asyncio.IncompleteReadError, IndexError)):
                await asked(port, "/status")  # in plain

    asyncio.run(run())


def test_a_certificate_has_to_be_of_somebody_who_is_named(tmp_path: Path, files: TlsFiles) -> None:
    async def run() -> None:
        operator = files.issue("operator")
        other = files.issue("operator2", "operator", HOST)
        settings = {**secured(files, tmp_path), "super.users": "User:CN=root"}
        async with running_broker(tmp_path / "data", **settings) as server:
            await started(server)
            port = port_of(server)
            for named in (operator, files.issue("root")):
                status, body = await asked(port, "/status", tls=context(files, named))
                assert status == 200
                assert '"ADMIN"' in body, "its certificate is in the status of TLS"
            assert (await asked(port, "/status", tls=context(files, other)))[0] == 401
            assert (await asked(port, "/drain", tls=context(files, operator)))[0] == 405
            page = {"Origin": "https://evil.example"}
            drained = await asked(port, "/drain", "POST", tls=context(files, operator), **page)
            assert drained[0] == 403, "a browser shows its certificate to whom a page sends it"
            forged = files.issue("operator", by=files.other_authority)
            with pytest.raises((ssl.SSLError, ConnectionError, IndexError)):
                await asked(port, "/status", tls=context(files, forged))

    asyncio.run(run())


def test_tokens_are_those_of_the_file_now(tmp_path: Path, files: TlsFiles) -> None:
    async def run() -> None:
        tokens = tmp_path / "tokens"
        async with running_broker(tmp_path / "data", **secured(files, tmp_path)) as server:
            await started(server)
            port, tls = port_of(server), context(files)

            async def status(token: str) -> int:
                return (await asked(port, "/metrics", tls=tls, Authorization=token))[0]

            assert await status(f"Bearer {TOKEN}") == 401, "there is no file"
            tokens.write_text(f"{TOKEN}\nanother-token-of-some-length\nshort\n")
            assert await status(f"Bearer {TOKEN}") == 200
            assert await status("bearer another-token-of-some-length") == 200
            for wrong in (
                "Bearer short",
                f"Bearer {TOKEN}x",
                f"Bearer {TOKEN[:-1]}",
                "Bearer ",
                f"Basic {TOKEN}",
                TOKEN,
                f"Bearer {'x' * 5000}",
            ):
                assert await status(wrong) == 401, wrong
            tokens.write_text("the-token-that-came-after\n")
            assert await status(f"Bearer {TOKEN}") == 401
            assert await status("Bearer the-token-that-came-after") == 200
            tokens.unlink()
            assert await status("Bearer the-token-that-came-after") == 401

    asyncio.run(run())


def test_a_hook_drains_by_the_socket_without_a_token(tmp_path: Path, files: TlsFiles) -> None:
    """And over the loopback address nobody does, where the port tells callers apart."""

    async def run() -> None:
        path = tmp_path / "admin.sock"
        async with running_broker(tmp_path / "data", **secured(files, tmp_path)) as server:
            await started(server)
            assert path.stat().st_mode & 0o777 == 0o600
            assert (await asked(port_of(server), "/drain", "POST", tls=context(files)))[0] == 401
            assert server.is_ready
            assert (await asked(str(path), "/drain"))[0] == 405
            assert (await asked(str(path), "/drain", "POST", Origin="http://localhost"))[0] == 403
            assert server.is_ready
            status, body = await asked(str(path), "/drain?timeout=5", "POST")
            assert (status, '"phase"' in body) == (200, True)
            assert not server.is_ready
            assert (await asked(str(path), "/undrain", "POST"))[0] == 200
            assert server.is_ready
            command = ["--admin-socket", str(path)]
            told = await asyncio.to_thread(CliRunner().invoke, main, ["drain", *command])
            assert told.exit_code == 0, told.output
            assert "leading 0 partitions" in told.output
        async with running_broker(tmp_path / "data", **secured(files, tmp_path)) as again:
            await started(again)
            assert (await asked(str(path), "/ready")) == (200, "ready\n")

    asyncio.run(run())


def test_a_socket_takes_the_place_of_no_file(tmp_path: Path, files: TlsFiles) -> None:
    async def run() -> None:
        path = tmp_path / "admin.sock"
        path.write_text("something of value")
        async with running_broker(tmp_path / "data", **secured(files, tmp_path)) as server:

            async def has_failed() -> bool:
                return isinstance(server.fatal_error, FileExistsError)

            await eventually(has_failed)
        assert path.read_text() == "something of value"

    asyncio.run(run())


def test_silent_connections_keep_no_probe_out(tmp_path: Path, files: TlsFiles) -> None:
    """Attack: more connections than may be in their handshake, and none says anything."""

    async def run() -> None:
        async with running_broker(tmp_path / "data", **secured(files, tmp_path)) as server:
            await started(server)
            port = port_of(server)
            silent = [await asyncio.open_connection(HOST, port) for _ in range(100)]
            assert await asked(port, "/live", tls=context(files)) == (200, "live\n")
            for _, writer in silent:
                writer.close()

    asyncio.run(run())


def test_a_burst_of_silent_connections_is_cut_at_once(
    tmp_path: Path, files: TlsFiles, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Attack: all of them accepted in one turn; their descriptors are for the logs."""
    monkeypatch.setattr(admin_sockets, "HANDSHAKE_SECONDS", 3_600.0)
    count = admin_sockets.BACKLOG - 8

    def is_cut(one: socket.socket) -> bool:
        try:
            return one.recv(1) == b""
        except BlockingIOError:
            return False
        except ConnectionResetError:
            return True

    async def run() -> None:
        async with running_broker(tmp_path / "data", **secured(files, tmp_path)) as server:
            await started(server)
            address = HOST, port_of(server)
            silent = [socket.create_connection(address) for _ in range(count)]
            for one in silent:
                one.setblocking(False)
            left = silent

            async def are_few() -> bool:
                nonlocal left
                left = [one for one in left if not is_cut(one)]
                return len(left) <= admin_sockets.HANDSHAKES_MAX

            await eventually(are_few)
            for one in silent:
                one.close()

    asyncio.run(run())


def test_a_token_in_plain_is_for_the_loopback_address_only(tmp_path: Path) -> None:
    async def run() -> None:
        tokens = tmp_path / "tokens"
        tokens.write_text(TOKEN)
        settings = {"admin.http.token.file": str(tokens), "admin.http.port": str(free_port())}
        async with running_broker(tmp_path / "data", **settings) as server:
            await started(server)
            port = port_of(server)
            assert (await asked(port, "/status"))[0] == 401
            assert (await asked(port, "/drain", "POST"))[0] == 401
            assert (await asked(port, "/status", Authorization=f"Bearer {TOKEN}"))[0] == 200

    asyncio.run(run())


@pytest.mark.parametrize(
    ("settings", "complaint"),
    [
        ({"admin.http.token.file": "/t", "admin.http.host": "0.0.0.0"}, "https"),
        ({"admin.http.token.file": "/t", "admin.http.host": ""}, "https"),
        ({"admin.http.principals": "User:CN=operator"}, "https"),
        ({"admin.http.protocol": "https"}, "certificate"),
        ({"admin.http.protocol": "https", "admin.http.principals": "User:*"}, "principals"),
        ({"admin.http.protocol": "https", "admin.http.principals": "operator"}, "principals"),
        (
            {"admin.http.protocol": "https", "listener.name.admin.ssl.client.auth": "required"},
            "probes",
        ),
        ({"listener.name.admin.ssl.client.auth": "requested"}, "ADMIN"),
        ({"admin.http.protocol": "tls"}, "http"),
        ({"admin.http.token.listener": "PLAINTEXT"}, "https"),
    ],
)
def test_settings_that_promise_what_is_not_kept_are_refused(
    settings: dict[str, str], complaint: str
) -> None:
    with pytest.raises(ConfigError, match=complaint):
        BrokerConfig.parse({"node.id": "0", **settings})


def test_paths_that_need_no_caller_are_two() -> None:
    assert not needs_caller("/live", "GET")
    assert not needs_caller("/ready", "HEAD")
    for path in ("/live/", "/Live", "//live", "/live?x", "/status", "/metrics", "/drain", ""):
        assert needs_caller(path, "GET"), path


@pytest.mark.parametrize("header", [None, "", "Bearer", "Bearer  ", "Basic x", "xBearer y"])
def test_what_is_no_bearer_token_is_none(header: str | None) -> None:
    assert bearer_token(header) is None


def test_a_token_file_of_many_lines_is_bounded(tmp_path: Path) -> None:
    path = tmp_path / "tokens"
    path.write_text("\n".join(f"token-number-{number:08}" for number in range(10_000)))
    tokens = TokenFile(str(path))
    assert tokens.has("token-number-00000000")
    assert not tokens.has("token-number-00000100")


class OneToken:
    """Verifies the tokens of a listener: one is a ServiceAccount's."""

    async def verify(self, token: str, host: str) -> Accepted | None:
        name = {"good": ACCOUNT, "other": "system:serviceaccount:other:prometheus"}.get(token)
        return None if name is None else Accepted(username=name)


@pytest.mark.parametrize(
    ("token", "admitted"), [("good", True), ("other", False), ("forged", False), ("", False)]
)
def test_a_service_account_has_to_be_named_as_well(token: str, admitted: bool) -> None:
    """SEC-29, SEC-63: whoever may log in to the broker is not let in here by that alone."""
    config: Any = SimpleNamespace(
        admin_http_token_file=None,
        admin_http_token_listener="clients",
        admin_http_principals=(f"User:{ACCOUNT}", "User:ANONYMOUS"),
        super_users=(),
    )
    tls: Any = SimpleNamespace(identity_of=lambda *_: None)
    callers = admin_callers(config, tls, SystemClock(), {"CLIENTS": OneToken()})
    assert callers is not None
    caller = asyncio.run(callers.caller(None, f"Bearer {token}"))
    assert caller == (f"User:{ACCOUNT}" if admitted else None)
    assert asyncio.run(callers.caller(object(), None)) is None, "ANONYMOUS is nobody"


def test_the_audit_has_who_drains_and_who_was_refused(
    tmp_path: Path, files: TlsFiles, caplog: pytest.LogCaptureFixture
) -> None:
    """SEC-70, SEC-71: by certificate, token or socket."""
    operator = files.issue("operator")
    settings = secured(files, tmp_path) | {"barnabas.audit": "on"}
    (tmp_path / "tokens").write_text(f"{TOKEN}\n")

    async def run() -> None:
        async with running_broker(tmp_path / "data", **settings) as server:
            await started(server)
            port, socket_path = port_of(server), settings["admin.http.socket"]
            assert (await asked(port, "/drain", "POST", tls=context(files)))[0] == 401
            for port_or_path, options in (
                (port, {"tls": context(files, operator)}),
                (port, {"tls": context(files), "Authorization": f"Bearer {TOKEN}"}),
                (socket_path, {}),
            ):
                assert (await asked(port_or_path, "/drain", "POST", **options))[0] == 200
                assert (await asked(port_or_path, "/undrain", "POST", **options))[0] == 200

    with caplog.at_level(logging.INFO, "barnabas.audit"):
        asyncio.run(run())
    lines = [json.loads(one.message) for one in caplog.records if one.name == "barnabas.audit"]
    told = [(one["event"], one["outcome"], one.get("principal", ""), one["host"]) for one in lines]
    local = {"127.0.0.1", "::1"}
    assert {(*one[:3], "local" if one[3] in local else one[3]) for one in told} == {
        ("login", "failure", "", "local"),
        ("drain", "success", "User:CN=operator", "local"),
        ("drain", "success", "admin.http.token.file", "local"),
        ("drain", "success", "", "unix"),
    }
    assert TOKEN not in caplog.text
