"""SCRAM-SHA-256 and SCRAM-SHA-512: both sides prove to know the password, neither sends it.

    client-first   n,[a=authzid],n=name,r=client-nonce
    server-first   r=client-nonce server-nonce,s=salt,i=iterations
    client-final   c=gs2-header,r=both nonces,p=proof
    server-final   v=signature

Names and passwords are hashed as the UTF-8 that was given, without SASLprep: Kafka's brokers and
tools do so, and a client that normalises could not log in with what they stored.

Invariants: no channel binding; nonces come from outside, and each exchange has its own, so that
what was recorded proves nothing later; a proof is verified by the credential of that moment, so one
that was taken away meanwhile lets nobody in; a false server cannot make a client count for longer
than `ITERATIONS_MAX`; comparisons take the same time whatever they find; nothing shown holds a
secret.
Source: RFC 5802, RFC 7677.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import re
from enum import Enum, auto
from functools import partial
from typing import Final

from barnabas_protocol.connection.sasl.mechanism import (
    Authenticated,
    Challenge,
    CredentialNeeded,
    HashingNeeded,
    Provision,
    SaslError,
    ScramCredential,
    ScramKeys,
    ServerStep,
)

ITERATIONS_MIN: Final = 4096
"""RFC 7677 demands this; fewer would let a false server guess the password cheaply."""
ITERATIONS_MAX: Final = 1_000_000
"""Some tenths of a second; brokers' default is 4096 and Kafka's own limit 16384."""
MESSAGE_BYTES_MAX: Final = 16 * 1024
"""No message of an honest peer is longer, names and nonces included."""

MECHANISMS: Final = {"SCRAM-SHA-256": "sha256", "SCRAM-SHA-512": "sha512"}
"""The names of the mechanisms and of their hashes."""
_NO_CHANNEL_BINDING: Final = "n,,"
_NONCE: Final = re.compile(r"[\x21-\x2b\x2d-\x7e]+")
_DECOY_SALT_BYTES: Final = 20


def salted_password(mechanism: str, password: str, salt: bytes, iterations: int) -> bytes:
    """What both keys of a credential are derived from; takes long on purpose."""
    return hashlib.pbkdf2_hmac(MECHANISMS[mechanism], password.encode(), salt, iterations)


def scram_keys(mechanism: str, salted: bytes) -> ScramKeys:
    """The keys that a server stores, of a salted password."""
    name = MECHANISMS[mechanism]
    stored_key = hashlib.new(name, hmac.digest(salted, b"Client Key", name)).digest()
    return ScramKeys(stored_key, hmac.digest(salted, b"Server Key", name))


def decoy_credential(
    mechanism: str, username: str, secret: bytes, iterations: int = ITERATIONS_MIN
) -> ScramCredential:
    """A credential that no password fits, always the same for a name that nobody has.

    With it a log-in under such a name fails in the same step, after the same time, as one with a
    wrong password: names cannot be probed. The secret must be the same on all brokers of a cluster.
    """

    def derived(purpose: str) -> bytes:
        text = f"{mechanism}\0{purpose}\0{username}".encode()
        return hmac.digest(secret, text, MECHANISMS[mechanism])

    return ScramCredential(
        salt=derived("salt")[:_DECOY_SALT_BYTES],
        iterations=iterations,
        keys=(ScramKeys(derived("stored key"), derived("server key")),),
    )


class ScramSaslClient:
    """Proves to know the password without sending it, and has the server prove the same."""

    def __init__(
        self,
        mechanism: str,
        username: str,
        password: str,
        nonce: str,
        *,
        hashes_apart: bool = False,
    ) -> None:
        """Make one for a log-in; with `hashes_apart` the caller says where hashing is done."""
        self.mechanism = mechanism
        self.is_complete = False
        self._hashes_apart = hashes_apart
        self._server_first = ""
        self._without_proof = ""
        self._hash = MECHANISMS[mechanism]
        self._password = password
        self._nonce = nonce
        name = username.replace("=", "=3D").replace(",", "=2C")
        self._first_bare = f"n={name},r={nonce}"
        self._server_signature: bytes | None = None

    def first(self) -> bytes:
        """Return the name and our nonce."""
        return (_NO_CHANNEL_BINDING + self._first_bare).encode()

    def respond(self, challenge: bytes) -> bytes | HashingNeeded | None:
        """Return our proof for the server's first message; verify its signature in the last."""
        if self.is_complete:
            raise SaslError(self.mechanism, "a message came after the last one")
        text = _text(self.mechanism, challenge)
        if self._server_signature is not None:
            self._verify(text)
            return None
        needed = self._hashing_for(text)
        return needed if self._hashes_apart else self.provide(needed.compute())

    def _hashing_for(self, server_first: str) -> HashingNeeded:
        fields = _fields(self.mechanism, server_first)
        nonce = fields.get("r", "")
        if not nonce.startswith(self._nonce) or len(nonce) == len(self._nonce):
            raise SaslError(self.mechanism, "the server's nonce does not extend ours")
        salt = _decoded(self.mechanism, fields.get("s", ""), "salt")
        iterations = self._iterations(fields.get("i", ""))
        self._server_first = server_first
        self._without_proof = f"c={_base64(_NO_CHANNEL_BINDING.encode())},r={nonce}"
        return HashingNeeded(
            partial(salted_password, self.mechanism, self._password, salt, iterations)
        )

    def provide(self, hashed: bytes) -> bytes:
        """Return our proof, by the salted password."""
        message = f"{self._first_bare},{self._server_first},{self._without_proof}".encode()
        client_key = hmac.digest(hashed, b"Client Key", self._hash)
        keys = scram_keys(self.mechanism, hashed)
        proof = _exclusive_or(client_key, hmac.digest(keys.stored_key, message, self._hash))
        self._server_signature = hmac.digest(keys.server_key, message, self._hash)
        return f"{self._without_proof},p={_base64(proof)}".encode()

    def _verify(self, server_final: str) -> None:
        fields = _fields(self.mechanism, server_final)
        if "e" in fields:
            raise SaslError(self.mechanism, f"the server reports {fields['e']}")
        signature = _decoded(self.mechanism, fields.get("v", ""), "signature")
        assert self._server_signature is not None
        if not hmac.compare_digest(signature, self._server_signature):
            raise SaslError(
                self.mechanism, "the server's signature is wrong: it does not know the password"
            )
        self.is_complete = True

    def _iterations(self, text: str) -> int:
        if not text.isascii() or not text.isdecimal() or len(text) > len(str(ITERATIONS_MAX)):
            raise SaslError(self.mechanism, f"the iteration count is {text[:20]!r}")
        iterations = int(text)
        if not ITERATIONS_MIN <= iterations <= ITERATIONS_MAX:
            raise SaslError(
                self.mechanism,
                f"the iteration count is {iterations}, not {ITERATIONS_MIN} to {ITERATIONS_MAX}",
            )
        return iterations


class _Phase(Enum):
    FIRST = auto()
    CREDENTIAL = auto()
    FINAL = auto()
    VERDICT = auto()
    ENDED = auto()


class ScramSaslServer:
    """Verifies a client's proof by a stored credential, and proves to have one.

    Needs the credential twice: for the challenge, and as it is when the proof has come. A name that
    nobody has should be provided with `decoy_credential`.
    """

    def __init__(self, mechanism: str, nonce: str) -> None:
        self.mechanism = mechanism
        self._hash = MECHANISMS[mechanism]
        self._server_nonce = nonce
        self._phase = _Phase.FIRST
        self._gs2_header = ""
        self._first_bare = ""
        self._server_first = ""
        self._nonce = ""
        self._username = ""
        self._shown: tuple[bytes, int] = b"", 0  # salt and iterations of the challenge
        self._without_proof = ""
        self._proof = b""

    def receive(self, token: bytes) -> ServerStep:
        """Take the client's first or final message."""
        phase, self._phase = self._phase, _Phase.ENDED  # a failure is the end of it
        text = _text(self.mechanism, token)
        if phase is _Phase.FIRST:
            return self._take_first(text)
        if phase is _Phase.FINAL:
            return self._take_final(text)
        raise SaslError(self.mechanism, "a message came that is not due")

    def provide(self, provision: Provision | None) -> Challenge | Authenticated:
        """Go on with the user's credential; without one the log-in ends."""
        phase, self._phase = self._phase, _Phase.ENDED
        if phase not in (_Phase.CREDENTIAL, _Phase.VERDICT):
            raise SaslError(self.mechanism, "no credential is needed now")
        if not isinstance(provision, ScramCredential):
            raise self._invalid_credentials()
        if phase is _Phase.VERDICT:
            return self._verified(provision)
        self._shown = provision.salt, provision.iterations
        salt = _base64(provision.salt)
        self._server_first = f"r={self._nonce},s={salt},i={provision.iterations}"
        self._phase = _Phase.FINAL
        return Challenge(self._server_first.encode())

    def _take_first(self, text: str) -> CredentialNeeded:
        flag, comma, rest = text.partition(",")
        authorization, second_comma, self._first_bare = rest.partition(",")
        if not comma or not second_comma:
            raise SaslError(self.mechanism, "the first message is malformed")
        if flag != "n":
            raise SaslError(self.mechanism, "channel binding is not offered")
        self._gs2_header = text[: len(text) - len(self._first_bare)]
        fields = self._first_bare.split(",")
        if len(fields) < 2 or fields[0][:2] != "n=" or fields[1][:2] != "r=":
            # An extension that must be understood (m=) stands before the name.
            raise SaslError(self.mechanism, "the first message is malformed")
        self._username = self._unescaped(fields[0][2:])
        nonce = fields[1][2:]
        if not self._username or not _NONCE.fullmatch(nonce):
            raise SaslError(self.mechanism, "the first message has no name or no nonce")
        if authorization and (
            authorization[:2] != "a=" or self._unescaped(authorization[2:]) != self._username
        ):
            raise SaslError(self.mechanism, "the authorization id is not the name")
        self._nonce = nonce + self._server_nonce
        self._phase = _Phase.CREDENTIAL
        return CredentialNeeded(self.mechanism, self._username)

    def _take_final(self, text: str) -> CredentialNeeded:
        self._without_proof, separator, proof_text = text.rpartition(",p=")
        fields = self._without_proof.split(",")
        if not separator or len(fields) < 2 or fields[0][:2] != "c=" or fields[1][:2] != "r=":
            raise SaslError(self.mechanism, "the final message is malformed")
        if fields[0][2:] != _base64(self._gs2_header.encode()):
            raise SaslError(self.mechanism, "the channel binding is not that of the first message")
        if not hmac.compare_digest(fields[1][2:].encode(), self._nonce.encode()):
            raise SaslError(self.mechanism, "the nonce is not that of this exchange")
        self._proof = _decoded(self.mechanism, proof_text, "proof")
        self._phase = _Phase.VERDICT
        return CredentialNeeded(self.mechanism, self._username)

    def _verified(self, credential: ScramCredential) -> Authenticated:
        """Who has proven to know the password that the credential is of."""
        message = f"{self._first_bare},{self._server_first},{self._without_proof}".encode()
        fitting: ScramKeys | None = None
        for keys in credential.keys:  # all of them, whichever fits: in the same time
            if self._proves(self._proof, keys, message) and fitting is None:
                fitting = keys
        if fitting is None or (credential.salt, credential.iterations) != self._shown:
            raise self._invalid_credentials()
        signature = hmac.digest(fitting.server_key, message, self._hash)
        return Authenticated(self._username, f"v={_base64(signature)}".encode(), None)

    def _proves(self, proof: bytes, keys: ScramKeys, message: bytes) -> bool:
        signature = hmac.digest(keys.stored_key, message, self._hash)
        if len(proof) != len(signature):
            return False
        client_key = _exclusive_or(proof, signature)
        hashed = hashlib.new(self._hash, client_key).digest()
        return hmac.compare_digest(hashed, keys.stored_key)

    def _unescaped(self, text: str) -> str:
        parts = text.split("=")
        if any(part[:2] not in ("2C", "3D") for part in parts[1:]):
            raise SaslError(self.mechanism, "a name has an escape that is not known")
        signs = {"2C": ",", "3D": "="}
        return parts[0] + "".join(signs[part[:2]] + part[2:] for part in parts[1:])

    def _invalid_credentials(self) -> SaslError:
        # The same for every cause.
        return SaslError(self.mechanism, "invalid credentials")


def _text(mechanism: str, message: bytes) -> str:
    if len(message) > MESSAGE_BYTES_MAX:
        raise SaslError(mechanism, f"a message has {len(message)} bytes")
    try:
        return message.decode()
    except UnicodeDecodeError:
        raise SaslError(mechanism, "a message is not UTF-8") from None


def _fields(mechanism: str, text: str) -> dict[str, str]:
    fields = dict(part.split("=", 1) for part in text.split(",") if part[1:2] == "=")
    if "m" in fields:
        raise SaslError(mechanism, "the server demands an extension that is not known")
    return fields


def _decoded(mechanism: str, text: str, name: str) -> bytes:
    try:
        decoded = base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        decoded = b""
    if not decoded:
        raise SaslError(mechanism, f"the {name} is not base64")
    return decoded


def _base64(data: bytes) -> str:
    return base64.b64encode(data).decode()


def _exclusive_or(first: bytes, second: bytes) -> bytes:
    return bytes(a ^ b for a, b in zip(first, second, strict=True))
