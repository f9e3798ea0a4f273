"""How `barnabas produce` reads a record from a line. Pure: bytes become key, value, headers.

    headers<TAB>key<SEPARATOR>value

The key part is there only with a key separator, the headers part only where they are asked for:
`name=value,name=value`. A part that is exactly the null marker is null.

Invariant: a line is taken as bytes; what is no UTF-8 comes out as it went in.
"""

from __future__ import annotations

from dataclasses import dataclass

HEADERS_SEPARATOR = b"\t"


class LineError(ValueError):
    """A line that cannot be a record."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LineFormat:
    """What a line consists of; `headers` and `key` are for every record."""

    key_separator: bytes | None = None
    has_headers: bool = False
    null_marker: bytes | None = None
    key: bytes | None = None
    headers: tuple[tuple[str, bytes | None], ...] = ()

    def parse(
        self, line: bytes
    ) -> tuple[bytes | None, bytes | None, list[tuple[str, bytes | None]]]:
        """Key, value and headers of a line without its newline. Raises: LineError."""
        headers = list(self.headers)
        if self.has_headers:
            part, separator, line = line.partition(HEADERS_SEPARATOR)
            if not separator:
                raise LineError("there is no tab after the headers")
            headers += parse_headers(part, self.null_marker)
        key = self.key
        if self.key_separator is not None:
            part, separator, line = line.partition(self.key_separator)
            if not separator:
                raise LineError(f"there is no key separator {self.key_separator.decode()!r}")
            key = self._content(part)
        return key, self._content(line), headers

    def _content(self, part: bytes) -> bytes | None:
        return None if part == self.null_marker else part


def parse_headers(part: bytes, null_marker: bytes | None = None) -> list[tuple[str, bytes | None]]:
    """The headers in `name=value,name=value`; none in an empty part. Raises: LineError."""
    headers: list[tuple[str, bytes | None]] = []
    for pair in part.split(b",") if part else ():
        name, separator, value = pair.partition(b"=")
        if not separator or not name:
            raise LineError(f"a header is name=value, not {pair.decode(errors='replace')!r}")
        try:
            decoded = name.decode("utf-8")
        except UnicodeDecodeError:
            raise LineError("the name of a header is no UTF-8") from None
        headers.append((decoded, None if value == null_marker else value))
    return headers
