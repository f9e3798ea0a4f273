"""Compiles a declared message into the Python source of one function that reads one version of it.

The function takes a memoryview and a position and returns the message and the position after it.
Runs of fixed-size fields become one `struct` call which also fetches the length that follows them;
nested structs are read in place, without a call; unknown tagged fields are skipped at every level.

Invariants of the source that is made here:
- A length is never trusted with memory: a slice cannot be larger than the input, and a count of
  elements is refused if the bytes that are left could not hold that many.
- A slice may end early when the input does. Positions only grow and nothing is read at a negative
  one, so the next read fails or the position ends up behind the input; `codec` checks for that.
- Malformed input raises ParseError, IndexError, struct.error or UnicodeDecodeError, and `codec`
  makes ParseErrors of all of them.
"""

import struct
from collections.abc import Callable
from typing import Any, Final

from barnabas_protocol.errors import ParseError
from barnabas_protocol.primitives import (
    TAGGED_FIELDS_MAX,
    finish_unsigned_varint,
    read_unsigned_varint,
    skip_tagged_fields,
)
from barnabas_protocol.schema import Field, MessageType, default_value

Reader = Callable[[memoryview, int], tuple[Any, int]]

# Fixed-size wire types: format character of `struct` and size in bytes.
FIXED: Final = {
    "boolean": ("?", 1),
    "int8": ("b", 1),
    "int16": ("h", 2),
    "uint16": ("H", 2),
    "int32": ("i", 4),
    "uint32": ("I", 4),
    "int64": ("q", 8),
    "float64": ("d", 8),
    "uuid": ("16s", 16),
}

# Arrays of fixed-size elements up to this length have their `struct` kept.
_KEPT_COUNT: Final = 64
ELEMENTS_MAX = 1_000_000
"""Of one array, as in Kafka 4.4."""

_arrays: dict[str, list[Callable[..., tuple[Any, ...]]]] = {}


def _many(code: str, count: int) -> str:
    # A count in front of `s` is the length of one string, so uuids are repeated instead.
    return ">" + (code * count if code == "16s" else f"{count}{code}")


def _unpackers(code: str) -> list[Callable[..., tuple[Any, ...]]]:
    """Return functions that unpack 0, 1, 2 ... values of one format character."""
    known = _arrays.get(code)
    if known is None:
        codes = (
            code * count if code == "16s" else f"{count}{code}" for count in range(_KEPT_COUNT)
        )
        known = _arrays[code] = [struct.Struct(f">{many}").unpack_from for many in codes]
    return known


def _unpack_many(code: str, count: int, view: memoryview, position: int) -> tuple[Any, ...]:
    return struct.unpack_from(_many(code, count), view, position)


def _minimum_bytes(item: Field | MessageType, version: int, *, flexible: bool) -> int:
    """Return how many bytes one array element takes at least."""
    if isinstance(item, MessageType):
        fields = [f for f in item.__fields__ if f.tag is None and f.exists_in(version)]
        size = sum(_minimum_bytes(f, version, flexible=flexible) for f in fields)
        return size + 1 if flexible else max(size, 1)
    if item.kind in FIXED:
        return FIXED[item.kind][1]
    if item.kind == "struct":
        if item.is_nullable_in(version):
            return 1
        assert isinstance(item.item, MessageType)
        return _minimum_bytes(item.item, version, flexible=flexible)
    if flexible:
        return 1
    return 2 if item.kind == "string" else 4


class _Source:
    """The source of one reader while it is written."""

    def __init__(self, version: int, *, flexible: bool) -> None:
        self.version = version
        self.flexible = flexible
        self.lines: list[str] = []
        self.depth = 1
        self.names: dict[str, Any] = {
            "ParseError": ParseError,
            "finish": finish_unsigned_varint,
            "uvarint": read_unsigned_varint,
            "skip": skip_tagged_fields,
            "unpack_many": _unpack_many,
            "new": object.__new__,
        }
        self._count = 0
        # Fixed-size fields met since the last flush: format characters, targets, bytes.
        self._codes: list[str] = []
        self._targets: list[str] = []
        self._bytes = 0

    def line(self, text: str) -> None:
        self.lines.append(" " * self.depth + text)

    def local(self, prefix: str) -> str:
        self._count += 1
        return f"{prefix}{self._count}"

    def constant(self, prefix: str, value: object) -> str:
        name = self.local(prefix)
        self.names[name] = value
        return name

    def fixed(self, code: str, size: int, target: str) -> None:
        """Add a fixed-size value to the current run."""
        self._codes.append(code)
        self._targets.append(target)
        self._bytes += size

    def flush(self) -> None:
        """Write out the current run as one `struct` call."""
        if not self._codes:
            return
        if self._codes == ["B"]:
            self.line(f"{self._targets[0]} = b[p]")
        else:
            unpack = self.constant("u", struct.Struct(">" + "".join(self._codes)).unpack_from)
            targets = ", ".join(self._targets)
            self.line(f"{targets}{',' if len(self._targets) == 1 else ''} = {unpack}(b, p)")
        self.line(f"p += {self._bytes}")
        self._codes, self._targets, self._bytes = [], [], 0

    def message(self, kind: MessageType) -> str:
        """Read the fields of a struct; return the local variable that holds it."""
        self.flush()
        result = self.local("o")
        self.line(f"{result} = new({self.constant('C', kind)})")
        tagged = []
        for field in kind.__fields__:
            target = f"{result}.{field.name}"
            if not field.exists_in(self.version):
                self._set_default(field, target)
            elif field.tag is not None:
                tagged.append(field)
                self._set_default(field, target)
            else:
                self.field(field, target, f"{kind.__name__}.{field.name}")
        if self.flexible:
            count = self.local("t")
            self.fixed("B", 1, count)
            self.flush()
            self._tagged_fields(tagged, count, result, kind.__name__)
        else:
            self.flush()
        return result

    def _set_default(self, field: Field, target: str) -> None:
        # The defaults of slots that are read later need no place in a run.
        value = default_value(field)
        if isinstance(value, list):
            text = "[]"
        elif value is None or isinstance(value, bool | int | str):
            text = repr(value)
        else:
            text = self.constant("d", value)
        self.line(f"{target} = {text}")

    def field(self, field: Field, target: str, path: str) -> None:
        """Read one field into the target, an attribute or a local variable."""
        if field.kind in FIXED:
            self.fixed(*FIXED[field.kind], target)
        elif field.kind == "struct":
            self._struct(field, target)
        else:
            self._sized(field, target, path)

    def _struct(self, field: Field, target: str) -> None:
        assert isinstance(field.item, MessageType)
        if not field.is_nullable_in(self.version):
            self.line(f"{target} = {self.message(field.item)}")
            return
        present = self.local("n")
        self.fixed("b", 1, present)
        self.flush()
        self.line(f"if {present} < 0:")
        self.line(f" {target} = None")
        self.line("else:")
        self.depth += 1
        self.line(f"{target} = {self.message(field.item)}")
        self.depth -= 1

    def _sized(self, field: Field, target: str, path: str) -> None:
        """Read a length and what it counts: characters, bytes or elements."""
        size = self.local("n")
        if self.flexible:
            self.fixed("B", 1, size)
            self.flush()
            self.line(f"if {size} > 127: {size}, p = finish(b, p, {size})")
            null, invalid = f"{size} == 0", None
        else:
            self.fixed(*(("h", 2) if field.kind == "string" else ("i", 4)), size)
            self.flush()
            null, invalid = f"{size} == -1", f"{size} < 0"
        # A compact length is one more than the length, so that 0 can mean null.
        length = f"{size} - 1" if self.flexible else size
        if field.is_nullable_in(self.version):
            self.line(f"if {null}:")
            self.line(f" {target} = None")
            if invalid:
                self.line(f"elif {invalid}: raise ParseError('{path} has a negative length', p)")
            self.line("else:")
            self.depth += 1
        else:
            why = "may not be null" if self.flexible else "has a negative length"
            self.line(f"if {invalid or null}: raise ParseError('{path} {why}', p)")
        if field.kind == "array":
            self._elements(field, target, path, length)
        else:
            end = self.local("e")
            self.line(f"{end} = p + {length}")
            text = ".tobytes().decode()" if field.kind == "string" else ""
            self.line(f"{target} = b[p:{end}]{text}")
            self.line(f"p = {end}")
        if field.is_nullable_in(self.version):
            self.depth -= 1

    def _elements(self, field: Field, target: str, path: str, length: str) -> None:
        item = field.item
        assert item is not None
        count = self.local("c")
        self.line(f"{count} = {length}")
        minimum = _minimum_bytes(item, self.version, flexible=self.flexible)
        needed = count if minimum == 1 else f"{count} * {minimum}"
        self.line(f"if {needed} > limit - p or {count} > {ELEMENTS_MAX}:")
        self.line(f" raise ParseError('{path} counts more elements than its bytes can hold', p)")
        if isinstance(item, Field) and item.kind in FIXED:
            code, size = FIXED[item.kind]
            unpackers = self.constant("a", _unpackers(code))
            self.line(f"if {count} < {_KEPT_COUNT}: {target} = list({unpackers}[{count}](b, p))")
            self.line(f"else: {target} = list(unpack_many({code!r}, {count}, b, p))")
            self.line(f"p += {count} * {size}")
            return
        items = self.local("l")
        self.line(f"{target} = {items} = []")
        self.line(f"for _ in range({count}):")
        self.depth += 1
        if isinstance(item, MessageType):
            element = self.message(item)
        else:
            element = self.local("x")
            self.field(item, element, path)
        self.line(f"{items}.append({element})")
        self.depth -= 1

    def _tagged_fields(self, fields: list[Field], count: str, result: str, path: str) -> None:
        self.line(f"if {count}:")
        self.depth += 1
        self.line(f"if {count} > 127: {count}, p = finish(b, p, {count})")
        if not fields:
            self.line(f"p = skip(b, p, {count})")
            self.depth -= 1
            return
        self.line(f"if {count} > {TAGGED_FIELDS_MAX}:")
        self.line(f" raise ParseError('{path} has too many tagged fields', p)")
        tag, end = self.local("g"), self.local("q")
        self.line(f"for _ in range({count}):")
        self.depth += 1
        self.line(f"{tag}, p = uvarint(b, p)")
        self.line(f"{end}, p = uvarint(b, p)")
        self.line(f"{end} += p")
        self.line(f"if {end} > limit: raise ParseError('{path} has a tagged field too long', p)")
        for index, field in enumerate(fields):
            self.line(f"{'elif' if index else 'if'} {tag} == {field.tag}:")
            self.depth += 1
            self.field(field, f"{result}.{field.name}", f"{path}.{field.name}")
            self.flush()
            self.line(f"if p != {end}:")
            self.line(f" raise ParseError('{path}.{field.name} has a wrong tagged size', p)")
            self.depth -= 1
        self.line("else:")
        self.line(f" p = {end}")
        self.depth -= 2


def reader_source(kind: MessageType, version: int) -> tuple[str, dict[str, Any]]:
    """Return the source of `read` for one version of a message, and the names that it uses."""
    source = _Source(version, flexible=version >= kind.__flexible__)
    result = source.message(kind)
    head = ["def read(b, p):", " limit = len(b)"]
    return "\n".join([*head, *source.lines, f" return {result}, p", ""]), source.names


def compile_reader(kind: MessageType, version: int) -> Reader:
    """Return the function that reads one version of a message."""
    text, names = reader_source(kind, version)
    exec(compile(text, f"<{kind.__name__} {version} reader>", "exec"), names)
    reader: Reader = names["read"]
    return reader
