"""Metadata records of SCRAM credentials, and of the secret behind decoys.

They are written from level 3 of `barnabas.version` on. Neither the password nor what a client could
log in with is in them; yet who has them can guess passwords offline, so they leave the metadata log
by no API, and `repr` hides them. Not here: what may be stored (`controller.scram_credentials`).

Source: RFC 5802, KIP-554, SEC-24, SEC-26, SEC-27; `docs/formats/metadata.md`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

from barnabas_broker.metadata.records import MetadataRecord
from barnabas_broker.metadata.wire import RecordReader, RecordWriter

CredentialKey = tuple[str, int]
"""A user's name, and the mechanism by its number on the wire (KIP-554)."""


@dataclass(frozen=True, slots=True)
class FormerKeys:
    """The keys of the password before, and until when they are good as well (wall clock)."""

    valid_until_ms: int
    stored_key: bytes = field(repr=False)
    server_key: bytes = field(repr=False)


@dataclass(frozen=True, slots=True)
class ScramCredentialRecord(MetadataRecord):
    """The credential of a user for one mechanism."""

    type_number: ClassVar[int] = 22

    user: str
    mechanism: int
    iterations: int
    salt: bytes = field(repr=False)
    stored_key: bytes = field(repr=False)
    server_key: bytes = field(repr=False)
    former: FormerKeys | None = field(default=None, repr=False)

    @property
    def key(self) -> CredentialKey:
        """What credentials are found by."""
        return self.user, self.mechanism

    def write(self, out: RecordWriter) -> None:
        """Append the fields."""
        out.string(self.user)
        out.unsigned(self.mechanism)
        out.unsigned(self.iterations)
        for data in (self.salt, self.stored_key, self.server_key):
            out.data(data)
        out.boolean(self.former is not None)
        if self.former is not None:
            out.unsigned(self.former.valid_until_ms)
            out.data(self.former.stored_key)
            out.data(self.former.server_key)

    @staticmethod
    def read(reader: RecordReader) -> ScramCredentialRecord:
        """Take the fields."""
        return ScramCredentialRecord(
            user=reader.string(),
            mechanism=reader.unsigned(),
            iterations=reader.unsigned(),
            salt=reader.data(),
            stored_key=reader.data(),
            server_key=reader.data(),
            former=FormerKeys(reader.unsigned(), reader.data(), reader.data())
            if reader.boolean()
            else None,
        )


@dataclass(frozen=True, slots=True)
class RemoveScramCredentialRecord(MetadataRecord):
    """A user has no credential for a mechanism any more."""

    type_number: ClassVar[int] = 23

    user: str
    mechanism: int

    @property
    def key(self) -> CredentialKey:
        """What credentials are found by."""
        return self.user, self.mechanism

    def write(self, out: RecordWriter) -> None:
        """Append the fields."""
        out.string(self.user)
        out.unsigned(self.mechanism)

    @staticmethod
    def read(reader: RecordReader) -> RemoveScramCredentialRecord:
        """Take the fields."""
        return RemoveScramCredentialRecord(reader.string(), reader.unsigned())


@dataclass(frozen=True, slots=True)
class DecoySecretRecord(MetadataRecord):
    """What all brokers derive the same decoys from: random, written once, before credentials."""

    type_number: ClassVar[int] = 24

    secret: bytes = field(repr=False)

    def write(self, out: RecordWriter) -> None:
        """Append the fields."""
        out.data(self.secret)

    @staticmethod
    def read(reader: RecordReader) -> DecoySecretRecord:
        """Take the fields."""
        return DecoySecretRecord(reader.data())
