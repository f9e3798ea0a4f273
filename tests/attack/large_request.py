"""A request as large as its API takes, for `tests.attack.steps`."""

import struct
from typing import Any, NamedTuple

from barnabas_protocol import codec
from barnabas_protocol.api import ApiKey
from barnabas_protocol.messages.sasl_handshake import SaslHandshakeRequest


class Large(NamedTuple):
    """One request of very many elements; amid a log-in, with what begins that."""

    name: str
    key: ApiKey
    version: int
    request: Any
    begin: SaslHandshakeRequest | None = None

    def frames(self) -> bytes:
        """What is sent, with its sizes."""
        sent = [codec.encode_request(self.request, self.key, self.version, 1, "m")]
        if self.begin is not None:
            sent.insert(0, codec.encode_request(self.begin, ApiKey.SASL_HANDSHAKE, 1, 1, "m"))
        return b"".join(struct.pack(">i", len(frame)) + bytes(frame) for frame in sent)
