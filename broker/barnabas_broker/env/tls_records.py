"""A server's end of TLS that gives OpenSSL one record at a time, and no more than it may have.

OpenSSL goes through everything that has arrived in one call, and carries out what is in it beside
data: 256 KiB of key updates held the loop up for a second, and a chain of two hundred certificates
for 50 ms, from whoever can connect. So a handshake may have so many bytes, records without data are
few, and whoever reads says before each record whether there is time for it in this turn.

Not here: how a turn is shared (`network.decryption_turns`).

Invariants: bytes reach OpenSSL in the order in which they came; a record is given only when it is
whole, and none while the last one has data that was not read.

Source: SEC-8; RFC 8446 sections 4.6.3 and 5.1; `SSLContext.sslobject_class`.
"""

from __future__ import annotations

import ssl
from collections.abc import Callable
from typing import Any, Final

from barnabas_broker.env.tls_alerts import AlertingSSLObject

HANDSHAKE_BYTES_MAX: Final = 16 * 1024
"""What a client may send before its handshake is over: room for eight certificates of 2 KB, which
is as many as Java takes. OpenSSL needs 0.2 ms for each, and takes 100 KiB of them."""
BLANK_RECORDS_MAX: Final = 4
"""Records without data in a row. Clients renew their keys after many gigabytes, if at all."""
RECORDS_EARN_BLANK: Final = 64
"""With so many records of data a client has earned another one without."""
_HEADER_BYTES: Final = 5
_RECORD_BYTES_MAX: Final = 16 * 1024 + 2_048  # of TLS 1.2, encrypted


class RecordwiseSSLObject(AlertingSSLObject):
    """One end of TLS whose peer may be hostile."""

    _received: ssl.MemoryBIO  # what has arrived
    _given: ssl.MemoryBIO  # what OpenSSL reads: one record at most
    _header: bytes  # of the next record
    _taken_bytes: int
    _records: int
    _blanks_left: int
    _records_at_blank: int
    may_take: Callable[[int], bool] | None
    """Whether a record of so many bytes may be read now; who says no has reading resumed later."""
    was_blank: Callable[[], None] | None
    """Called for each record without data."""

    @classmethod
    def _create(cls, incoming: ssl.MemoryBIO, *rest: Any, **named: Any) -> Any:
        given = ssl.MemoryBIO()
        made = super()._create(given, *rest, **named)
        made._received, made._given, made._header = incoming, given, b""
        made._taken_bytes = made._records = 0
        made._blanks_left, made._records_at_blank = BLANK_RECORDS_MAX, 0
        made.may_take = made.was_blank = None
        return made

    def do_handshake(self) -> None:
        """Go on with the handshake. Raises: ssl.SSLError, with the alert where there is one."""
        while True:
            try:
                super().do_handshake()
                return
            except ssl.SSLWantReadError:
                self._give()
                if self._taken_bytes > HANDSHAKE_BYTES_MAX:
                    raise ssl.SSLError(
                        ssl.SSL_ERROR_SSL, f"a handshake of more than {HANDSHAKE_BYTES_MAX} bytes"
                    ) from None

    def read(self, len: int = 1024, buffer: Any = None) -> Any:  # noqa: A002 - as in SSLObject
        """Read data of one record. Raises: ssl.SSLError, SSLWantReadError where there is none."""
        inner = self._sslobj  # type: ignore[attr-defined]
        while True:
            if not inner.pending():
                self._give()
                self._records += 1
            try:
                return inner.read(len) if buffer is None else inner.read(len, buffer)
            except ssl.SSLWantReadError:
                self._count_blank()

    def unwrap(self) -> Any:
        """End TLS in order. Raises: ssl.SSLError."""
        while True:
            try:
                return super().unwrap()
            except ssl.SSLWantReadError:
                self._give()
                self._count_blank()

    def _give(self) -> None:
        """Give OpenSSL the next record. Raises: ssl.SSLWantReadError where it is not to be had."""
        received, header = self._received, self._header
        if len(header) < _HEADER_BYTES:
            header = self._header = header + received.read(_HEADER_BYTES - len(header))
            if len(header) < _HEADER_BYTES:
                raise _none_yet()
        size = int.from_bytes(header[3:])
        # Of what is larger than any record OpenSSL says that it is wrong.
        if size <= _RECORD_BYTES_MAX and (
            received.pending < size or not (self.may_take is None or self.may_take(size))
        ):
            raise _none_yet()
        self._header = b""
        self._taken_bytes += size
        self._given.write(header)
        self._given.write(received.read(size))

    def _count_blank(self) -> None:
        earned = (self._records - self._records_at_blank) // RECORDS_EARN_BLANK
        self._blanks_left = min(self._blanks_left + earned, BLANK_RECORDS_MAX) - 1
        self._records_at_blank = self._records
        if self._blanks_left < 0:
            raise ssl.SSLError(ssl.SSL_ERROR_SSL, "too many TLS records without data") from None
        if self.was_blank is not None:
            self.was_blank()


def _none_yet() -> ssl.SSLWantReadError:
    return ssl.SSLWantReadError(ssl.SSL_ERROR_WANT_READ, "the next record is not there")
