"""Canaries wherever a broker is given a secret, looked for in all that it says or keeps.

Logs at their finest, the audit log, responses, pages of the admin HTTP, and every file of the data
directory. Only the salts and keys that SCRAM derives may be kept (SEC-24, SEC-114), and what
AlterConfigs sets is a record of the metadata, as in Apache Kafka: it is there and nowhere else.
"""

import asyncio
import base64
import logging
import ssl
import subprocess
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from urllib.parse import quote
from urllib.request import Request, urlopen

import pytest

from barnabas_broker.handlers.rights import RULES
from barnabas_broker.handlers.table import ADVERTISED
from barnabas_broker.server import Server
from barnabas_client.errors import BarnabasError
from barnabas_protocol import codec
from barnabas_protocol.acl import AclOperation
from barnabas_protocol.api import ApiKey
from barnabas_protocol.messages import (
    alter_user_scram_credentials,
    describe_configs,
    incremental_alter_configs,
)
from tests.support.in_process_broker import running_broker
from tests.support.processes import free_port
from tests.support.raw_client import RawClient
from tests.support.sasl_brokers import logged_in
from tests.support.tls_files import TlsFiles
from tests.support.token_issuer import TokenIssuer, key_set

HOST = "localhost"
NODE = 0
# Each in its place; what is common to them is looked for.
CANARY = "c4nary0f-a-secret-given"
JAAS, BOOTSTRAP, BROKERS, PHRASE = (
    f"{CANARY}-{place}" for place in ("jaas", "bootstrap", "brokers", "key-phrase")
)
WRONG, TOKEN, ADMIN_TOKEN, WRONG_ADMIN_TOKEN = (
    f"{CANARY}-{place}-0123456789" for place in ("wrong", "bearer", "admin", "wrong-admin")
)
VALUE = "v4lue0f-a-setting"
SALTED = f"{CANARY}-salted-password-of-64-bytes".encode().ljust(64, b"!")
DESCRIBING = sorted(
    key
    for key in ADVERTISED
    if AclOperation.DESCRIBE in RULES[key].cluster
    or AclOperation.DESCRIBE_CONFIGS in RULES[key].cluster
    or key in (ApiKey.METADATA, ApiKey.DESCRIBE_CLUSTER, ApiKey.API_VERSIONS, ApiKey.LIST_GROUPS)
)


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> TlsFiles:
    return TlsFiles(tmp_path_factory.mktemp("tls")).create(HOST)


def locked_key(files: TlsFiles) -> str:
    """The broker's key, encrypted by a phrase."""
    done = subprocess.run(
        ["openssl", "pkcs8", "-topk8", "-in", str(files.broker_key), "-passout", f"pass:{PHRASE}"],
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout


def settings(files: TlsFiles, directory: Path) -> dict[str, str]:
    """Every setting that is a secret, or names a file with some."""
    for name, text in (
        ("bootstrap", f"admin={BOOTSTRAP}\n"),
        ("brokers", f"broker-{NODE}={BROKERS}\n"),
        ("tokens", f"{ADMIN_TOKEN}\n"),
    ):
        (directory / name).write_text(text)
    plain = "org.apache.kafka.common.security.plain.PlainLoginModule required"
    admin = "listener.name.admin."
    sasl = "listener.name.sasl."
    return {
        "node.id": str(NODE),
        "listeners": "PLAINTEXT://127.0.0.1:0,SASL://localhost:0,REPLICATION://127.0.0.1:0",
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,SASL:SASL_SSL,"
        "REPLICATION:SASL_PLAINTEXT",
        f"{sasl}sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-512,OAUTHBEARER",
        f"{sasl}plain.sasl.jaas.config": f'{plain} user_jaas="{JAAS}";',
        f"{sasl}ssl.keystore.type": "PEM",
        f"{sasl}ssl.keystore.key": locked_key(files),
        f"{sasl}ssl.keystore.certificate.chain": files.broker_certificate.read_text(),
        f"{sasl}ssl.key.password": PHRASE,
        "sasl.oauthbearer.expected.issuer": "https://issuer",
        "sasl.oauthbearer.expected.audience": "barnabas",
        "sasl.oauthbearer.jwks.endpoint.url": f"file:{directory / 'keys.json'}",
        "listener.name.replication.sasl.enabled.mechanisms": "SCRAM-SHA-512",
        "barnabas.broker.principals": "User:broker-{id}",
        "barnabas.broker.users.file": str(directory / "brokers"),
        "barnabas.bootstrap.users.file": str(directory / "bootstrap"),
        "authorizer.class.name": "StandardAuthorizer",
        "super.users": "User:ANONYMOUS;User:admin",
        "barnabas.audit.file": str(directory / "audit.log"),
        "admin.http.protocol": "https",
        "admin.http.host": HOST,
        "admin.http.port": str(free_port()),
        "admin.http.token.file": str(directory / "tokens"),
        f"{admin}barnabas.ssl.certificate.file": str(files.broker_certificate),
        f"{admin}barnabas.ssl.key.file": str(files.broker_key),
        f"{admin}ssl.truststore.location": str(files.authority),
    }


async def log_in(server: Server, files: TlsFiles, mechanism: str, **more: Any) -> bool:
    """Whether somebody gets in."""
    with suppress(BarnabasError):
        async with logged_in(
            server,
            security_protocol="SASL_SSL",
            ssl_cafile=str(files.authority),
            sasl_mechanism=mechanism,
            **more,
        ):
            return True
    return False


async def log_ins(server: Server, files: TlsFiles) -> None:
    """Right and wrong ones, by each mechanism."""
    for mechanism, user, password, is_right in (
        ("PLAIN", "jaas", JAAS, True),
        ("PLAIN", "jaas", WRONG, False),
        ("SCRAM-SHA-512", "admin", BOOTSTRAP, True),
        ("SCRAM-SHA-512", "admin", WRONG, False),
    ):
        got_in = await log_in(server, files, mechanism, sasl_username=user, sasl_password=password)
        assert got_in == is_right, (mechanism, user)
    assert not await log_in(
        server, files, "OAUTHBEARER", sasl_oauthbearer_token_callback=lambda: f"{TOKEN}.a.b"
    )


async def change(client: RawClient) -> None:
    """Secrets by requests: a salted password, settings that are secret, and what is no setting."""
    upsertion = alter_user_scram_credentials.ScramCredentialUpsertion(
        name="carol", mechanism=2, iterations=4096, salt=b"some-salt", salted_password=SALTED
    )
    response = await client.call(
        ApiKey.ALTER_USER_SCRAM_CREDENTIALS,
        0,
        alter_user_scram_credentials.AlterUserScramCredentialsRequest(upsertions=[upsertion]),
    )
    assert response.results[0].error_code == 0
    for name in (
        "listener.name.sasl.ssl.key.password",
        "listener.name.sasl.ssl.keystore.key",
        "ssl.keystore.key",
        "ssl.keystore.password",
        "sasl.jaas.config",
        "listener.name.sasl.plain.sasl.jaas.config",
        "no.such.setting",
        "log.cleaner.threads",
    ):
        for node in ("", str(NODE)):
            resource = incremental_alter_configs.AlterConfigsResource(
                resource_type=4,
                resource_name=node,
                configs=[incremental_alter_configs.AlterableConfig(name=name, value=VALUE)],
            )
            await client.call(
                ApiKey.INCREMENTAL_ALTER_CONFIGS,
                1,
                incremental_alter_configs.IncrementalAlterConfigsRequest(resources=[resource]),
            )


async def responses(client: RawClient) -> list[str]:
    """What is described of the cluster, by each API that describes something of it."""
    told = []
    for key in DESCRIBING:
        version = ADVERTISED[key][1]
        told.append(repr(await client.call(key, version, codec.request_class(key)())))
    resources = [
        describe_configs.DescribeConfigsResource(
            resource_type=kind, resource_name=name, configuration_keys=None
        )
        for kind, name in ((4, ""), (4, str(NODE)), (8, str(NODE)))
    ]
    request = describe_configs.DescribeConfigsRequest(
        resources=resources, include_synonyms=True, include_documentation=True
    )
    response = await client.call(ApiKey.DESCRIBE_CONFIGS, 4, request)
    keys = {config.name for result in response.results for config in result.configs}
    assert "listener.name.sasl.ssl.key.password" in keys or "ssl.key.password" in keys
    return [*told, repr(response)]


async def pages(server: Server, files: TlsFiles) -> list[str]:
    """Those of the admin HTTP, with the right token and with a wrong one."""
    told, tls = [], ssl.create_default_context(cafile=str(files.authority))
    for token in (ADMIN_TOKEN, WRONG_ADMIN_TOKEN):
        for path in ("/live", "/ready", "/status", "/metrics", f"/none?token={token}"):
            url = f"https://{HOST}:{server.config.admin_http_port}{path}"
            request = Request(url, headers={"Authorization": f"Bearer {token}"})
            code, body = await asyncio.to_thread(read, request, tls)
            is_open = path in ("/live", "/ready") or token == ADMIN_TOKEN
            assert (code in (401, 403)) != is_open, path
            told.append(body)
    return told


def read(request: Request, tls: ssl.SSLContext) -> tuple[int, str]:
    """Status and body of a page."""
    try:
        with urlopen(request, timeout=20, context=tls) as answer:
            return answer.status, answer.read().decode()
    except HTTPError as error:
        return error.code, error.read().decode()


def spellings(secret: str) -> Iterator[str]:
    """Ways in which a secret may be written."""
    data = secret.encode()
    yield secret
    yield quote(secret)
    yield data.hex()
    # Wherever it begins in what is encoded.
    for shift in range(3):
        yield base64.b64encode(b" " * shift + data).decode()[4:-4]


def test_secrets_are_nowhere(
    tmp_path: Path, files: TlsFiles, caplog: pytest.LogCaptureFixture
) -> None:
    """SEC-114: of two starts, the second by what the first has kept."""
    (tmp_path / "keys.json").write_bytes(key_set(TokenIssuer()))
    data, shown = tmp_path / "data", list[str]()
    properties = settings(files, tmp_path)

    async def run() -> None:
        for is_first in (True, False):
            async with running_broker(data, **properties) as server:
                await log_ins(server, files)
                async with await RawClient.connect(server.port) as client:
                    if is_first:
                        await change(client)
                    shown.extend(await responses(client))
                shown.extend(await pages(server, files))

    with caplog.at_level(logging.DEBUG):
        asyncio.run(run())
    shown += [logging.Formatter().format(record) for record in caplog.records]
    shown.append((tmp_path / "audit.log").read_text())
    key_lines = tuple(files.broker_key.read_text().splitlines()[1:-1])
    locked_lines = tuple(properties["listener.name.sasl.ssl.keystore.key"].splitlines()[1:-1])
    wanted = {*spellings(CANARY), *key_lines, *locked_lines, "PRIVATE KEY-----"}
    for text in shown:
        look_for({*wanted, *spellings(VALUE)}, text)
    kept = {path: path.read_bytes().decode("latin-1") for path in files_of(data)}
    assert any(VALUE in text for text in kept.values()), "else nothing was set"
    for path, text in kept.items():
        is_metadata = path.parent.name == "__cluster_metadata-0"
        look_for(wanted if is_metadata else {*wanted, *spellings(VALUE)}, text)


def files_of(data: Path) -> list[Path]:
    """All files of a data directory."""
    return [path for path in data.rglob("*") if path.is_file()]


def look_for(wanted: set[str], text: str) -> None:
    """Nothing of this is in a text."""
    for secret in wanted:
        place = text.find(secret)
        assert place < 0, text[max(0, place - 300) : place + 300]
