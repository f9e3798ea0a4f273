"""The filter of records: what people type, its terms, and whether a record passes. Pure.

    filter    = *( term )                    ; all must hold; separated by spaces
    term      = operand                      ; key or value contain it
              | field operator operand
    field     = "key" | "value" | "partition" | "offset" | "time"
              | "header." name | "json." path    ; json is that of the value
    operator  = "=" | "!=" | "~" | "!~" | "<" | "<=" | ">" | ">="      ; ~ is: contains
    operand   = word | quoted                ; quoted: "with spaces, \\" and \\\\"

`time>2h` is younger than two hours; moments are those of the command line. `null` without quotes is
a key or value that is null, a header or a member that is null or not there. An operand that is a
number is compared with numbers as a number, to the last digit, and is equal to `5.0` when it is
`5`; with quotes, and against text, it is text. Case counts. `json.items.*.price>100` is: of one
item. A negated operator holds wherever its opposite does not.

No code and no regular expressions: a filter can neither run something nor take long (CON-115).

Invariants: the text of a filter is read as an equal filter; `x!=y` is the opposite of `x=y` for
every record.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from decimal import Decimal
from enum import Enum
from typing import Any, Final, Protocol

from barnabas_client.facts.moments import parse_moment_ms
from barnabas_console.records.field_paths import PARTS_MAX, values_at
from barnabas_console.records.json_text import JsonValue, NumberText, write_json
from barnabas_protocol.settings.suggestions import did_you_mean

CHARACTERS_MAX: Final = 4096
TERMS_MAX: Final = 20
_FIELDS: Final = ("key", "value", "partition", "offset", "time", "header.", "json.")
_NUMBER_CHARACTERS_MAX: Final = 400  # what is longer is compared as text
# An exponent of more digits is none that anybody means.
_NUMBER: Final = re.compile(r"-?\d+(\.\d+)?([eE][+-]?\d{1,6})?", re.ASCII)
_QUOTE: Final = '"'
_OPERATOR_CHARACTERS: Final = "=!~<>"


class FilterError(ValueError):
    """The text is no filter; `position` is where it stops being one."""

    def __init__(self, message: str, position: int) -> None:
        super().__init__(message)
        self.position = position


class FieldKind(Enum):
    """What of a record a term looks at."""

    ANY_TEXT = ""
    KEY = "key"
    VALUE = "value"
    PARTITION = "partition"
    OFFSET = "offset"
    TIME = "time"
    HEADER = "header"
    JSON = "json"


class Operator(Enum):
    """How a term compares; `CONTAINS` is for text alone."""

    EQUAL = "="
    NOT_EQUAL = "!="
    CONTAINS = "~"
    CONTAINS_NOT = "!~"
    LESS = "<"
    LESS_OR_EQUAL = "<="
    GREATER = ">"
    GREATER_OR_EQUAL = ">="


_POSITIVE: Final = {
    Operator.NOT_EQUAL: Operator.EQUAL,
    Operator.CONTAINS_NOT: Operator.CONTAINS,
}
_ORDER: Final[dict[Operator, Callable[[Any, Any], bool]]] = {
    Operator.EQUAL: operator.eq,
    Operator.LESS: operator.lt,
    Operator.LESS_OR_EQUAL: operator.le,
    Operator.GREATER: operator.gt,
    Operator.GREATER_OR_EQUAL: operator.ge,
}
_NUMERIC_FIELDS: Final = (FieldKind.PARTITION, FieldKind.OFFSET, FieldKind.TIME)


class FilterableRecord(Protocol):
    """What a filter asks of a record; each is worked out only when a term needs it."""

    @property
    def partition(self) -> int:
        """Its partition."""

    @property
    def offset(self) -> int:
        """Its offset."""

    @property
    def timestamp_ms(self) -> int:
        """Its timestamp; -1 without one."""

    @property
    def key_text(self) -> str | None:
        """The key as text; None if it is null or no text."""

    @property
    def value_text(self) -> str | None:
        """The value as text; None if it is null or no text."""

    @property
    def is_key_null(self) -> bool:
        """Whether there is no key."""

    @property
    def is_value_null(self) -> bool:
        """Whether it is a tombstone."""

    @property
    def value_json(self) -> Iterable[JsonValue]:
        """The value as JSON; nothing where it is none."""

    def header_texts(self, name: str) -> list[str | None]:
        """The contents of the headers of that name."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Term:
    """One condition; `path` is a header's name or the parts of a JSON path."""

    field: FieldKind
    path: tuple[str, ...] = ()
    operator: Operator = Operator.CONTAINS
    operand: str
    is_quoted: bool = False
    #: The operand of a numeric field (of `time` in milliseconds), else the number that it is.
    number: Decimal | None = None

    def __str__(self) -> str:
        operand = _quote(self.operand) if self.is_quoted else self.operand
        match self.field:
            case FieldKind.ANY_TEXT:
                return operand
            case FieldKind.HEADER | FieldKind.JSON:
                path = ".".join(
                    part if _is_plain_part(part) else _quote(part) for part in self.path
                )
                return f"{self.field.value}.{path}{self.operator.value}{operand}"
        return f"{self.field.value}{self.operator.value}{operand}"

    def matches(self, record: FilterableRecord) -> bool:
        """Whether the record fulfils the condition."""
        positive = _POSITIVE.get(self.operator)
        if positive is None:
            return self._holds(record, self.operator)
        return not self._holds(record, positive)

    def _holds(self, record: FilterableRecord, how: Operator) -> bool:
        if self.field in _NUMERIC_FIELDS:
            return self._compares(record, how)
        if self.operand == "null" and not self.is_quoted and how is Operator.EQUAL:
            return self._is_null(record)
        return any(self._fits(content, how) for content in self._contents(record))

    def _compares(self, record: FilterableRecord, how: Operator) -> bool:
        match self.field:
            case FieldKind.PARTITION:
                number = record.partition
            case FieldKind.OFFSET:
                number = record.offset
            case _:
                number = record.timestamp_ms
                if number < 0:
                    return False
        return _ORDER[how](number, self.number)

    def _is_null(self, record: FilterableRecord) -> bool:
        match self.field:
            case FieldKind.KEY:
                return record.is_key_null
            case FieldKind.VALUE:
                return record.is_value_null
            case FieldKind.HEADER:
                found = record.header_texts(self.path[0])
                return not found or None in found
        found_values = [one for root in record.value_json for one in values_at(root, self.path)]
        return not found_values or None in found_values

    def _contents(self, record: FilterableRecord) -> Iterator[JsonValue]:
        match self.field:
            case FieldKind.KEY:
                yield record.key_text
            case FieldKind.VALUE:
                yield record.value_text
            case FieldKind.ANY_TEXT:
                yield record.key_text
                yield record.value_text
            case FieldKind.HEADER:
                yield from record.header_texts(self.path[0])
            case _:
                for root in record.value_json:
                    yield from values_at(root, self.path)

    def _fits(self, content: JsonValue, how: Operator) -> bool:
        if content is None:
            return False
        text = content if isinstance(content, str) else write_json(content)
        if how is Operator.CONTAINS:
            return self.operand in text
        if self.number is not None and (number := number_of(text)) is not None:
            return _ORDER[how](number, self.number)
        is_mixed = self.number is not None or isinstance(content, NumberText)
        if is_mixed and how is not Operator.EQUAL:
            return False  # text is neither below nor above a number
        return _ORDER[how](text, self.operand)


@dataclass(frozen=True, slots=True)
class RecordFilter:
    """Terms that must all hold; without one, every record passes."""

    terms: tuple[Term, ...] = ()

    def __str__(self) -> str:
        return " ".join(map(str, self.terms))

    def __bool__(self) -> bool:
        return bool(self.terms)

    def matches(self, record: FilterableRecord) -> bool:
        """Whether the record passes."""
        return all(term.matches(record) for term in self.terms)

    def partitions(self, known: Iterable[int]) -> list[int]:
        """Those of the partitions that can have a record that passes."""
        wanted = [term for term in self.terms if term.field is FieldKind.PARTITION]
        return [one for one in known if all(_partition_fits(term, one) for term in wanted)]

    def needles(self) -> tuple[bytes, ...]:
        """Bytes that stand in every record that passes, if its key and value are text.

        Only such as stay what they are wherever a text stands: in JSON, or in MessagePack.
        """
        found = []
        for term in self.terms:
            is_text = term.field in (FieldKind.ANY_TEXT, FieldKind.KEY, FieldKind.VALUE)
            is_positive = term.operator in (Operator.CONTAINS, Operator.EQUAL)
            if is_text and is_positive and _is_needle(term.operand):
                found.append(term.operand.encode())
        return tuple(found)


def parse_filter(text: str, now_ms: int) -> RecordFilter:
    """Read what somebody typed; `now_ms` is what "2h" counts from. Raises: FilterError."""
    if len(text) > CHARACTERS_MAX:
        raise FilterError(f"a filter has at most {CHARACTERS_MAX} characters", CHARACTERS_MAX)
    return RecordFilter(tuple(_Parser(text, now_ms).terms()))


def parse_field(text: str) -> tuple[FieldKind, tuple[str, ...]]:
    """Read the name of a field, as it stands in a term. Raises: FilterError."""
    return _Parser(text, 0).field()


def number_of(text: str) -> Decimal | None:
    """The number that a text is; None if it is none, or one of absurd length."""
    if len(text) > _NUMBER_CHARACTERS_MAX or _NUMBER.fullmatch(text) is None:
        return None
    return Decimal(text)


class _Parser:
    """Reads one text from left to right."""

    def __init__(self, text: str, now_ms: int) -> None:
        self._text = text
        self._now_ms = now_ms
        self._at = 0

    def terms(self) -> Iterator[Term]:
        """Yield the terms. Raises: FilterError."""
        count = 0
        while True:
            while self._peek().isspace():
                self._at += 1
            if self._at == len(self._text):
                return
            count += 1
            if count > TERMS_MAX:
                raise FilterError(f"a filter has at most {TERMS_MAX} terms", self._at)
            yield self._term()

    def field(self) -> tuple[FieldKind, tuple[str, ...]]:
        """Return the field whose name fills the text. Raises: FilterError."""
        parts = self._field_parts()
        if self._peek():
            raise FilterError(f"'{self._text}' is no field alone", self._at)
        return self._field(parts, 0)

    def _term(self) -> Term:
        start = self._at
        if self._peek() == _QUOTE:
            return self._any_text(start, self._quoted(), is_quoted=True)
        parts = self._field_parts()
        written = self._operator()
        if written is None:
            # No operator follows: the whole word is text to seek, dots and quotes as they are.
            self._at = start
            return self._any_text(start, self._word(), is_quoted=False)
        kind, path = self._field(parts, start)
        operand_at = self._at
        is_quoted = self._peek() == _QUOTE
        operand = self._quoted() if is_quoted else self._word()
        if not operand and not is_quoted:
            raise FilterError(
                f'nothing behind {self._text[start:operand_at]}: empty text is ""', operand_at
            )
        self._check_end()
        return self._checked(kind, path, written, operand, is_quoted, operand_at)

    def _any_text(self, start: int, text: str, *, is_quoted: bool) -> Term:
        self._check_end()
        if not text:
            raise FilterError("nothing to seek", start)
        return Term(field=FieldKind.ANY_TEXT, operand=text, is_quoted=is_quoted)

    def _checked(
        self,
        kind: FieldKind,
        path: tuple[str, ...],
        written: Operator,
        operand: str,
        is_quoted: bool,
        at: int,
    ) -> Term:
        number = None if is_quoted else number_of(operand)
        if kind in _NUMERIC_FIELDS:
            if written in (Operator.CONTAINS, Operator.CONTAINS_NOT):
                raise FilterError(f"{kind.value} is a number: compare it with = or <", at)
            number = self._numeric_operand(kind, operand, at)
        return Term(
            field=kind,
            path=path,
            operator=written,
            operand=operand,
            is_quoted=is_quoted,
            number=number,
        )

    def _numeric_operand(self, kind: FieldKind, operand: str, at: int) -> Decimal:
        if kind is FieldKind.TIME:
            try:
                return Decimal(parse_moment_ms(operand, self._now_ms))
            except (ValueError, OverflowError) as error:
                raise FilterError(str(error), at) from None
        if not (operand.isascii() and operand.isdigit() and len(operand) <= 19):
            raise FilterError(f"{kind.value} is a whole number, not '{operand}'", at)
        return Decimal(operand)

    def _field(self, parts: list[str], start: int) -> tuple[FieldKind, tuple[str, ...]]:
        name, path = parts[0], tuple(parts[1:])
        match name:
            case "key" | "value" | "partition" | "offset" | "time" if not path:
                return FieldKind(name), ()
            case "header" if path:
                # A header's name may have dots of its own.
                return FieldKind.HEADER, (".".join(path),)
            case "json" if path and all(path):
                if len(path) > PARTS_MAX:
                    raise FilterError(f"a path has at most {PARTS_MAX} parts", start)
                return FieldKind.JSON, path
        written = ".".join(parts)
        hint = did_you_mean(written, _FIELDS) or (
            "; fields are key, value, partition, offset, time, header.NAME and json.PATH;"
            " text with a = or < in it wants quotes"
        )
        raise FilterError(f"no field '{written}'{hint}", start)

    def _field_parts(self) -> list[str]:
        parts = [""]
        while (character := self._peek()) and not character.isspace():
            if character in _OPERATOR_CHARACTERS:
                break
            if character == ".":
                parts.append("")
                self._at += 1
            elif character == _QUOTE and not parts[-1] and len(parts) > 1:
                parts[-1] = self._quoted()
            else:
                parts[-1] += character
                self._at += 1
        return parts

    def _operator(self) -> Operator | None:
        for length in (2, 1):
            written = self._text[self._at : self._at + length]
            if any(one.value == written for one in Operator):
                self._at += length
                return Operator(written)
        return None

    def _word(self) -> str:
        start = self._at
        while (character := self._peek()) and not character.isspace():
            self._at += 1
        return self._text[start : self._at]

    def _quoted(self) -> str:
        start = self._at
        self._at += 1
        characters = []
        while (character := self._peek()) != _QUOTE:
            if character == "\\":
                self._at += 1
                character = self._peek()
            if not character:
                raise FilterError("a quote is not closed", start)
            characters.append(character)
            self._at += 1
        self._at += 1
        return "".join(characters)

    def _check_end(self) -> None:
        character = self._peek()
        if character and not character.isspace():
            raise FilterError("behind a quote comes a space", self._at)

    def _peek(self) -> str:
        """The next character; empty at the end."""
        return self._text[self._at : self._at + 1]


def _partition_fits(term: Term, partition: int) -> bool:
    positive = _POSITIVE.get(term.operator)
    if positive is None:
        return _ORDER[term.operator](partition, term.number)
    return not _ORDER[positive](partition, term.number)


def _is_needle(operand: str) -> bool:
    """Whether the text stands as it is wherever it is shown.

    Not where it could be the form of a number, of bytes or of a word of JSON, or have an escape.
    """
    if not operand or not all(
        character.isalnum() or character in " _-./@:" for character in operand
    ):
        return False
    if all(character in "0123456789abcdefABCDEF+-. " for character in operand):
        return False
    if ":" in operand or any(operand in word for word in ("true", "false", "null", "NaN", "inf")):
        return False
    try:
        operand.encode()
    except UnicodeEncodeError:
        return False
    return True


def _is_plain_part(part: str) -> bool:
    return bool(part) and not any(
        character.isspace() or character in '."' or character in _OPERATOR_CHARACTERS
        for character in part
    )


def _quote(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace(_QUOTE, '\\"')
    return f'"{escaped}"'
