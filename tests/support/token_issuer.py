"""Issues bearer tokens, and serves what verifies them: key sets, discovery, reviews."""

import base64
import json
import ssl
from types import TracebackType
from typing import Any, Self

from aiohttp import web
from cryptography.hazmat.primitives.asymmetric import ec, padding, rsa
from cryptography.hazmat.primitives.asymmetric.utils import decode_dss_signature
from cryptography.hazmat.primitives.hashes import SHA256, SHA384, SHA512, HashAlgorithm

from tests.support.tls_files import TlsFiles

ISSUER = "https://issuer.example"
AUDIENCE = "barnabas:test/broker"
NOW_S = 1_800_000_000
_DIGESTS: dict[str, type[HashAlgorithm]] = {"256": SHA256, "384": SHA384, "512": SHA512}
_CURVES: dict[str, tuple[type[ec.EllipticCurve], str, int]] = {
    "ES256": (ec.SECP256R1, "P-256", 32),
    "ES384": (ec.SECP384R1, "P-384", 48),
    "ES512": (ec.SECP521R1, "P-521", 66),
}


def encoded(data: bytes | dict[str, Any]) -> str:
    raw = data if isinstance(data, bytes) else json.dumps(data).encode()
    return base64.urlsafe_b64encode(raw).decode().rstrip("=")


class TokenIssuer:
    """One signing key, for one algorithm."""

    def __init__(self, algorithm: str = "ES256", key_id: str = "key-1") -> None:
        self.algorithm = algorithm
        self.key_id = key_id
        self._key: ec.EllipticCurvePrivateKey | rsa.RSAPrivateKey = (
            ec.generate_private_key(_CURVES[algorithm][0]())
            if algorithm in _CURVES
            else rsa.generate_private_key(65537, 2048)
        )

    def jwk(self) -> dict[str, Any]:
        """The public key."""
        named = {"kid": self.key_id, "use": "sig", "alg": self.algorithm}
        if isinstance(self._key, rsa.RSAPrivateKey):
            numbers = self._key.public_key().public_numbers()
            return {
                **named,
                "kty": "RSA",
                "n": encoded(numbers.n.to_bytes(256)),
                "e": encoded(numbers.e.to_bytes(3)),
            }
        _, name, size = _CURVES[self.algorithm]
        point = self._key.public_key().public_numbers()
        return {
            **named,
            "kty": "EC",
            "crv": name,
            "x": encoded(point.x.to_bytes(size)),
            "y": encoded(point.y.to_bytes(size)),
        }

    def token(
        self, now_s: float = NOW_S, header: dict[str, Any] | None = None, **claims: Any
    ) -> str:
        """A token; a claim that is None is left out."""
        every = {
            "iss": ISSUER,
            "aud": [AUDIENCE],
            "sub": "alice",
            "iat": now_s,
            "exp": now_s + 600,
            **claims,
        }
        head = {"alg": self.algorithm, "kid": self.key_id, **(header or {})}
        signed = ".".join(
            (
                encoded({key: value for key, value in head.items() if value is not None}),
                encoded({key: value for key, value in every.items() if value is not None}),
            )
        )
        return f"{signed}.{encoded(self.sign(signed.encode()))}"

    def sign(self, data: bytes) -> bytes:
        digest = _DIGESTS[self.algorithm[2:]]()
        if isinstance(self._key, ec.EllipticCurvePrivateKey):
            size = _CURVES[self.algorithm][2]
            r, s = decode_dss_signature(self._key.sign(data, ec.ECDSA(digest)))
            return r.to_bytes(size) + s.to_bytes(size)
        if self.algorithm.startswith("RS"):
            return self._key.sign(data, padding.PKCS1v15(), digest)
        return self._key.sign(data, padding.PSS(padding.MGF1(digest), digest.digest_size), digest)


def key_set(*issuers: TokenIssuer) -> bytes:
    return json.dumps({"keys": [issuer.jwk() for issuer in issuers]}).encode()


class TokenServer:
    """An API server as far as tokens go, over HTTPS; also the server of a key set."""

    def __init__(self, tls: TlsFiles, *issuers: TokenIssuer) -> None:
        self._tls = tls
        self.issuers = list(issuers)
        self.issuer = ISSUER
        self.is_away = False
        self.fetches = 0
        self.reviews: list[dict[str, Any]] = []
        self.deleted: set[str] = set()
        """Names whose pods are gone."""
        self.audiences = [AUDIENCE]

    @property
    def address(self) -> str:
        return f"https://localhost:{self._runner.addresses[0][1]}"

    async def __aenter__(self) -> Self:
        application = web.Application()
        application.router.add_get("/openid/v1/jwks", self._keys)
        application.router.add_get("/.well-known/openid-configuration", self._discovery)
        application.router.add_post("/apis/authentication.k8s.io/v1/tokenreviews", self._review)
        self._runner = web.AppRunner(application, shutdown_timeout=0.1)
        await self._runner.setup()
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        context.load_cert_chain(self._tls.broker_certificate, self._tls.broker_key)
        await web.TCPSite(self._runner, "127.0.0.1", 0, ssl_context=context).start()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self._runner.cleanup()

    def _check_presence(self) -> None:
        if self.is_away:
            raise web.HTTPServiceUnavailable

    async def _keys(self, request: web.Request) -> web.Response:
        accepted = request.headers.get("Accept", "*/*")
        if "*/*" not in accepted and "application/jwk-set+json" not in accepted:
            # As Kubernetes does, which serves nothing else here.
            return web.Response(status=406)
        self._check_presence()
        self.fetches += 1
        return web.Response(body=key_set(*self.issuers))

    async def _discovery(self, request: web.Request) -> web.Response:
        self._check_presence()
        return web.json_response({"issuer": self.issuer})

    async def _review(self, request: web.Request) -> web.Response:
        self._check_presence()
        document = await request.json()
        self.reviews.append(document["spec"])
        claims = document["spec"]["token"].split(".")[1]
        name = json.loads(base64.urlsafe_b64decode(claims + "=="))["sub"]
        status = (
            {"authenticated": False}
            if name in self.deleted
            else {"authenticated": True, "user": {"username": name}, "audiences": self.audiences}
        )
        return web.json_response({**document, "status": status}, status=201)
