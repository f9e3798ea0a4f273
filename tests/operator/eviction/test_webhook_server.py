"""The webhook's port: HTTPS with a certificate that may come late and be replaced."""

import asyncio
import ssl
import subprocess
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from barnabas_operator.eviction.review import EvictionReview, let_through, refused
from barnabas_operator.eviction.serving_certificate import ServingCertificate
from barnabas_operator.eviction.webhook_server import PATH, WebhookServer
from tests.operator.eviction.certificates import put, trust, webhook_certificates
from tests.support.admission import eviction_review
from tests.support.operator_world import until
from tests.support.tls_files import TlsFiles


class Refusing:
    """Refuses every eviction, but for dry runs."""

    async def answer(self, review: EvictionReview) -> dict[str, Any]:
        return let_through(review.uid) if review.is_dry_run else refused(review.uid, review.pod)


@asynccontextmanager
async def serving(certificates: Path) -> AsyncIterator[WebhookServer]:
    refusing: Any = Refusing()
    server = WebhookServer(refusing, certificates, host="127.0.0.1", port=0, refresh_seconds=0.05)
    await server.start()
    try:
        yield server
    finally:
        await server.close()
        await server.close()


async def ask(server: WebhookServer, authority: Path, body: Any) -> tuple[int, Any]:
    url = f"https://localhost:{server.port}{PATH}"
    async with (
        aiohttp.ClientSession() as session,
        session.post(url, json=body, ssl=trust(authority)) as answer,
    ):
        is_json = answer.content_type == "application/json"
        return answer.status, await (answer.json() if is_json else answer.text())


def test_reviews_are_answered_over_https(tmp_path: Path) -> None:
    """The API server speaks HTTPS only, and wants its own uid back."""

    async def run() -> None:
        certificates, authority = webhook_certificates(tmp_path)
        async with serving(certificates) as server:
            review = eviction_review("shop", "demo-1")
            status, answer = await ask(server, authority, review)
            assert status == 200
            assert answer == refused(review["request"]["uid"], "demo-1")
            other = eviction_review("shop", "demo-1")
            other["request"]["operation"] = "CONNECT"
            uid = other["request"]["uid"]
            assert await ask(server, authority, other) == (200, let_through(uid))
            status, text = await ask(server, authority, {"kind": "Pod"})
            assert status == 400
            assert "no AdmissionReview" in text

    asyncio.run(run())


def test_a_certificate_that_comes_later_or_anew_is_served_without_a_restart(
    tmp_path: Path,
) -> None:
    """operator.md 3.24: hot reload; and a pair that does not fit leaves the old one in place."""

    async def run() -> None:
        first = TlsFiles(tmp_path / "first").create()
        second = TlsFiles(tmp_path / "second").create()
        folder = tmp_path / "certificates"
        async with serving(folder) as server:
            review = eviction_review("shop", "demo-1")
            with pytest.raises(aiohttp.ClientError):
                await ask(server, first.authority, review)
            folder.mkdir()
            put(first.broker_certificate, folder / "tls.crt")
            put(first.broker_key, folder / "tls.key")

            async def is_trusted_by(authority: Path) -> bool:
                try:
                    return (await ask(server, authority, review))[0] == 200
                except aiohttp.ClientError:
                    return False

            await until(lambda: is_trusted_by(first.authority))
            put(second.broker_certificate, folder / "tls.crt")
            assert server.certificate.refresh() is False
            assert await is_trusted_by(first.authority)
            put(second.broker_key, folder / "tls.key")
            await until(lambda: is_trusted_by(second.authority))
            assert not await is_trusted_by(first.authority)

    asyncio.run(run())


def test_when_the_certificate_expires_is_known(tmp_path: Path) -> None:
    """operator.md 3.24: an expiry metric; nothing else tells before evictions pass by."""
    certificates, _ = webhook_certificates(tmp_path)
    certificate = ServingCertificate(certificates)
    assert certificate.expires_seconds == 0
    assert certificate.refresh()
    assert not certificate.refresh()
    command = ["openssl", "x509", "-noout", "-enddate", "-in", str(certificates / "tls.crt")]
    told = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    expected = ssl.cert_time_to_seconds(told.strip().removeprefix("notAfter="))
    assert certificate.expires_seconds == expected


def test_a_certificate_that_has_expired_counts_as_none(tmp_path: Path) -> None:
    """It is served, since there is no better one, and the metric is 0."""
    folder = tmp_path / "certificates"
    folder.mkdir()
    request, key = folder / "request", folder / "tls.key"
    for command in (
        ("ecparam", "-genkey", "-name", "prime256v1", "-noout", "-out", str(key)),
        ("req", "-new", "-key", str(key), "-subj", "/CN=localhost", "-out", str(request)),
        # It expires in the second in which it is made.
        ("x509", "-req", "-days", "0", *made_of(request, key), "-out", str(folder / "tls.crt")),
    ):
        subprocess.run(["openssl", *command], check=True, capture_output=True)
    certificate = ServingCertificate(folder)
    assert certificate.refresh()
    assert certificate.expires_seconds == 0


def made_of(request: Path, key: Path) -> tuple[str, ...]:
    return "-in", str(request), "-signkey", str(key)
