"""A principal as it travels in an envelope: the bytes of Apache Kafka's DefaultPrincipalData.

    version int16 = 0 | type compact string | name compact string | token flag | tagged fields

The flag says whether somebody has logged in by a delegation token, which there are none of here.

Source: KIP-590, SEC-62.
"""

from __future__ import annotations

from typing import Final

from barnabas_broker.security.principal import Principal
from barnabas_protocol import codec
from barnabas_protocol.errors import ParseError
from barnabas_protocol.schema import Buffer, Message, boolean, string

VERSION: Final = 0
_VERSION_BYTES: Final = 2


class DefaultPrincipalData(Message, versions=(0, 0), flexible=0):
    """What follows the version."""

    type: str = string()
    name: str = string()
    token_authenticated: bool = boolean()


def encode_principal(principal: Principal) -> bytes:
    """The bytes of a principal."""
    fields = DefaultPrincipalData(type=principal.type, name=principal.name)
    return VERSION.to_bytes(_VERSION_BYTES, "big") + codec.encode(fields, VERSION)


def decode_principal(encoded: Buffer | None) -> Principal:
    """The principal in an envelope.

    Raises: ParseError where there is none, or one of another version or form.
    """
    if encoded is None or len(encoded) < _VERSION_BYTES:
        raise ParseError("a principal is cut short", 0)
    version = int.from_bytes(encoded[:_VERSION_BYTES], "big", signed=True)
    if version != VERSION:
        raise ParseError(f"a principal of version {version}", 0)
    fields, end = codec.decode(DefaultPrincipalData, encoded, VERSION, _VERSION_BYTES)
    if end != len(encoded):
        raise ParseError("something follows a principal", end)
    if not (fields.type and fields.name):
        raise ParseError("a principal without a type or a name", _VERSION_BYTES)
    return Principal(fields.type, fields.name)
