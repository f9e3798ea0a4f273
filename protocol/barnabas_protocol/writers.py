"""Compiles a declared message into the Python source of one function that writes one version of it.

The function takes the message, a bytearray to append to and a list of parts. Runs of fixed-size
fields, of lengths and of arrays of numbers become one `struct` call: a partition of a Metadata
response is a single one. Fields that the version lacks are not written, whatever they hold.

Without parts (None) everything is appended to the bytearray. With parts, record batches are not
copied: what was written before them and then the batches' own buffers become parts, and writing
goes on in a new bytearray, which the function returns.
"""

import struct
from collections.abc import Callable
from typing import Any, Final

from barnabas_protocol.primitives import Buffer, unsigned_varint
from barnabas_protocol.readers import FIXED
from barnabas_protocol.schema import Field, MessageType, default_value

Writer = Callable[[Any, bytearray, list[Buffer] | None], bytearray]

# The largest count or length whose compact form, one more than it, fits in one byte.
_ONE_BYTE_MAX: Final = 126
# How many shapes (combinations of array lengths) of one run keep their `struct`.
_KEPT_SHAPES: Final = 512


class _Shapes(dict[Any, Callable[..., bytes]]):
    """Packs a run that contains arrays of numbers: from the arrays' lengths to a pack function.

    The template is a list of format characters, of which `None` stands for the next array: its
    length (in the version's form) and then its elements, all of one format character.
    """

    def __init__(self, template: list[str | None], items: list[str], *, flexible: bool) -> None:
        super().__init__()
        self._template = template
        self._items = items
        self._flexible = flexible

    def __missing__(self, key: int | tuple[int, ...]) -> Callable[..., bytes]:
        counts = key if isinstance(key, tuple) else (key,)
        if self._flexible and max(counts) > _ONE_BYTE_MAX:
            return self._slow(counts)
        pack = struct.Struct(self._format(counts)).pack
        if len(self) < _KEPT_SHAPES and sum(counts) < _KEPT_SHAPES:
            self[key] = pack
        return pack

    def _format(self, counts: tuple[int, ...]) -> str:
        arrays = iter(zip(counts, self._items, strict=True))
        codes = [">"]
        for code in self._template:
            if code is not None:
                codes.append(code)
                continue
            count, item = next(arrays)
            codes.append("B" if self._flexible else "i")
            codes.append(item * count if item == "16s" else f"{count}{item}" if count else "")
        return "".join(codes)

    def _slow(self, counts: tuple[int, ...]) -> Callable[..., bytes]:
        """Return a function for counts whose compact form takes several bytes."""

        def pack(*values: Any) -> bytes:
            out = bytearray()
            arrays = iter(zip(counts, self._items, strict=True))
            left = iter(values)
            for code in self._template:
                if code is not None:
                    out += struct.pack(f">{code}", next(left))
                    continue
                count, item = next(arrays)
                out += unsigned_varint(next(left))
                many = item * count if item == "16s" else f"{count}{item}"
                out += struct.pack(f">{many}", *(next(left) for _ in range(count)))
            return bytes(out)

        return pack


def _size_of(value: Any) -> int:
    """Return the bytes of a records field: one buffer or several."""
    return sum(map(len, value)) if isinstance(value, list) else len(value)


def _append_records(out: bytearray, parts: list[Buffer] | None, value: Any) -> bytearray:
    """Write record batches, or set them aside; return where writing goes on."""
    buffers = value if isinstance(value, list) else (value,)
    if parts is None:
        for buffer in buffers:
            out += buffer
        return out
    if out:
        parts.append(out)
        out = bytearray()
    parts.extend(buffers)
    return out


class _Source:
    """The source of one writer while it is written."""

    def __init__(self, version: int, *, flexible: bool) -> None:
        self.version = version
        self.flexible = flexible
        self.lines: list[str] = []
        self.depth = 1
        self.out = "out"
        self.names: dict[str, Any] = {
            "uvarint": unsigned_varint,
            "size_of": _size_of,
            "append_records": _append_records,
        }
        self._count = 0
        # Values met since the last flush. The code is None for an array of numbers, whose
        # expressions are its length and its elements.
        self._codes: list[str | None] = []
        self._values: list[str] = []
        self._array_items: list[str] = []
        self._array_counts: list[str] = []

    def line(self, text: str) -> None:
        self.lines.append(" " * self.depth + text)

    def local(self, prefix: str) -> str:
        self._count += 1
        return f"{prefix}{self._count}"

    def constant(self, prefix: str, value: object) -> str:
        name = self.local(prefix)
        self.names[name] = value
        return name

    def fixed(self, code: str, value: str) -> None:
        """Add a fixed-size value to the current run."""
        self._codes.append(code)
        self._values.append(value)

    def flush(self) -> None:
        """Write out the current run as one `struct` call."""
        if self._codes == ["B"]:
            self.line(f"{self.out}.append({self._values[0]})")
        elif self._codes:
            self.line(f"{self.out} += {self._packed()}")
        self._codes, self._values = [], []
        self._array_items, self._array_counts = [], []

    def _packed(self) -> str:
        values = ", ".join(self._values)
        if not self._array_counts:
            codes = "".join(code or "" for code in self._codes)
            return f"{self.constant('s', struct.Struct('>' + codes).pack)}({values})"
        shapes = _Shapes(self._codes, self._array_items, flexible=self.flexible)
        return f"{self.constant('s', shapes)}[{', '.join(self._array_counts)}]({values})"

    def length(self, size: str) -> None:
        """Write a compact length, given in its form on the wire, behind the current run."""
        codes, values = list(self._codes), list(self._values)
        items, counts = list(self._array_items), list(self._array_counts)
        self.line(f"if {size} < 128:")
        self.depth += 1
        self.fixed("B", size)
        self.flush()
        self.depth -= 1
        self.line("else:")
        self.depth += 1
        self._codes, self._values = codes, values
        self._array_items, self._array_counts = items, counts
        self.flush()
        self.line(f"{self.out} += uvarint({size})")
        self.depth -= 1

    def message(self, kind: MessageType, value: str) -> None:
        """Write the fields of the struct in a local variable."""
        tagged = []
        for field in kind.__fields__:
            if not field.exists_in(self.version):
                continue
            if field.tag is not None:
                tagged.append(field)
            else:
                self.field(field, f"{value}.{field.name}")
        if self.flexible:
            self._tagged_fields(tagged, value)

    def field(self, field: Field, value: str) -> None:
        """Write one field; the value is an expression without side effects."""
        if field.kind in FIXED:
            self.fixed(FIXED[field.kind][0], value)
        elif field.kind == "struct":
            self._struct(field, value)
        elif field.kind == "array":
            self._array(field, value)
        else:
            self._sized(field, value)

    def _struct(self, field: Field, value: str) -> None:
        assert isinstance(field.item, MessageType)
        inner = self.local("m")
        self.line(f"{inner} = {value}")
        if not field.is_nullable_in(self.version):
            self.message(field.item, inner)
            return
        self.flush()
        self.line(f"if {inner} is None: {self.out} += b'\\xff'")
        self.line("else:")
        self.depth += 1
        self.fixed("b", "1")
        self.message(field.item, inner)
        self.flush()
        self.depth -= 1

    def _sized(self, field: Field, value: str) -> None:
        """Write text or bytes behind their length."""
        size, content = self.local("n"), self.local("v")
        measure = "size_of" if field.kind == "records" else "len"
        encode = f"{content} = {content}.encode()" if field.kind == "string" else ""
        self.line(f"{content} = {value}")
        extra = " + 1" if self.flexible else ""
        if field.is_nullable_in(self.version):
            null = 0 if self.flexible else -1
            self.line(f"if {content} is None: {content}, {size} = b'', {null}")
            self.line("else:")
            self.depth += 1
        if encode:
            self.line(encode)
        self.line(f"{size} = {measure}({content}){extra}")
        if field.is_nullable_in(self.version):
            self.depth -= 1
        if self.flexible:
            self.length(size)
        else:
            self.fixed("h" if field.kind == "string" else "i", size)
            self.flush()
        if field.kind == "records":
            self.line(f"{self.out} = append_records({self.out}, parts, {content})")
        else:
            self.line(f"{self.out} += {content}")

    def _array(self, field: Field, value: str) -> None:
        item = field.item
        assert item is not None
        count, items = self.local("n"), self.local("l")
        self.line(f"{items} = {value}")
        nullable = field.is_nullable_in(self.version)
        if isinstance(item, Field) and item.kind in FIXED and not nullable:
            self._numbers(FIXED[item.kind][0], items, count)
            return
        extra = " + 1" if self.flexible else ""
        if nullable:
            null = 0 if self.flexible else -1
            self.line(f"if {items} is None: {items}, {count} = (), {null}")
            self.line(f"else: {count} = len({items}){extra}")
        else:
            self.line(f"{count} = len({items}){extra}")
        if self.flexible:
            self.length(count)
        else:
            self.fixed("i", count)
            self.flush()
        element = self.local("m")
        self.line(f"for {element} in {items}:")
        self.depth += 1
        if isinstance(item, MessageType):
            self.message(item, element)
        else:
            self.field(item, element)
        self.flush()
        self.depth -= 1

    def _numbers(self, code: str, items: str, count: str) -> None:
        self.line(f"{count} = len({items})")
        self._codes.append(None)
        self._values.append(f"{count} + 1" if self.flexible else count)
        self._values.append(f"*{items}")
        self._array_items.append(code)
        self._array_counts.append(count)

    def _tagged_fields(self, fields: list[Field], value: str) -> None:
        """Write the tagged fields that differ from their defaults, in the order of tags."""
        if not fields:
            self.fixed("B", "0")
            return
        fields = sorted(fields, key=lambda field: field.tag or 0)
        flags = []
        for field in fields:
            flag = self.local("f")
            flags.append(flag)
            self.line(f"{flag} = {self._differs(field, f'{value}.{field.name}')}")
        count = self.local("t")
        self.line(f"{count} = {' + '.join(flags)}")
        self.fixed("B", count)
        self.flush()
        self.line(f"if {count}:")
        self.depth += 1
        outer = self.out
        for field, flag in zip(fields, flags, strict=True):
            self.line(f"if {flag}:")
            self.depth += 1
            self.out = self.local("out")
            self.line(f"{self.out} = bytearray()")
            self.field(field, f"{value}.{field.name}")
            self.flush()
            tag = self.constant("k", unsigned_varint(field.tag or 0))
            self.line(f"{outer} += {tag} + uvarint(len({self.out}))")
            self.line(f"{outer} += {self.out}")
            self.depth -= 1
        self.out = outer
        self.depth -= 1

    def _differs(self, field: Field, value: str) -> str:
        default = default_value(field)
        if default is None:
            return f"{value} is not None"
        if isinstance(default, list):
            filled = f"len({value}) > 0"
            nullable = field.is_nullable_in(self.version)
            return f"({value} is None or {filled})" if nullable else filled
        if isinstance(default, int | str):
            return f"{value} != {default!r}"
        name = self.constant("d", default)
        return f"({value} is not {name} and {value} != {name})"


def writer_source(kind: MessageType, version: int) -> tuple[str, dict[str, Any]]:
    """Return the source of `write` for one version of a message, and the names that it uses."""
    source = _Source(version, flexible=version >= kind.__flexible__)
    source.message(kind, "m")
    source.flush()
    head = "def write(m, out, parts):"
    return "\n".join([head, *source.lines, " return out", ""]), source.names


def compile_writer(kind: MessageType, version: int) -> Writer:
    """Return the function that writes one version of a message."""
    text, names = writer_source(kind, version)
    exec(compile(text, f"<{kind.__name__} {version} writer>", "exec"), names)
    writer: Writer = names["write"]
    return writer
