"""How the name in a client's certificate becomes a principal's: `ssl.principal.mapping.rules`.

Rules are separated by commas, and the first that matches the whole distinguished name wins:
`DEFAULT`, the name as it is, or `RULE:pattern/replacement/` with nothing, `L` or `U` behind it for
the case of the result. A backslash takes a slash into either part. In a replacement `$n` is a
group, `\\c` the character itself; a group that the pattern has not is left as it is written, while
`$12` means group 1 and a 2 where there are fewer than twelve.

Patterns are matched in time that grows with the name alone, as clients' names come from clients;
what such a matcher cannot do (looking around, groups by name) is refused.

Source: SEC-4, KIP-371; Java's String.replaceAll, which also replaces an empty match at the end.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, Final, NamedTuple

_PART: Final = r"((?:\\.|[^\\/])*)"
_RULE: Final = re.compile(rf"RULE:{_PART}/{_PART}/([LU]?)")
_SEPARATOR: Final = re.compile(r"\s*(?:,\s*|$)")
NAME_CHARACTERS_MAX: Final = 4_096
"""Longer names are not matched."""


class MappingError(ValueError):
    """Rules that cannot be read, or a name that none of them matches."""


class _Rule(NamedTuple):
    """One rule; without a pattern it takes the name as it is."""

    pattern: Any
    replacement: str
    case: str


class PrincipalMapping:
    """The rules of one listener."""

    __slots__ = ("_rules", "text")

    def __init__(self, text: str) -> None:
        """Read the rules. Raises: MappingError."""
        self.text = text
        self._rules = _parse(text.strip())

    def name_of(self, distinguished_name: str) -> str:
        """The principal's name for a certificate's. Raises: MappingError where no rule matches."""
        if len(distinguished_name) <= NAME_CHARACTERS_MAX:
            for rule in self._rules:
                name = _applied(rule, distinguished_name)
                if name:
                    return name
        shown = distinguished_name[:200]
        raise MappingError(f"no rule of ssl.principal.mapping.rules matches {shown}")


def _parse(text: str) -> list[_Rule]:
    rules: list[_Rule] = []
    position = 0
    while position < len(text):
        if text.startswith("DEFAULT", position):
            rules.append(_Rule(None, "", ""))
            end = position + len("DEFAULT")
        else:
            found = _RULE.match(text, position)
            if found is None:
                if text[position] == ",":  # an empty rule is passed over
                    position += 1
                    continue
                raise MappingError(f"Invalid rule: {text[position:]}")
            pattern, replacement, case = found.groups()
            rules.append(_Rule(_compiled(pattern), replacement, case))
            end = found.end()
        separator = _SEPARATOR.match(text, end)
        if separator is None:
            raise MappingError(f"Invalid rule: {text[position:]}")
        position = separator.end()
    if not rules:
        raise MappingError("ssl.principal.mapping.rules has no rule")
    for rule in rules:
        if rule.pattern is not None:
            _replacement(rule.replacement, rule.pattern.groups)
    return rules


def _compiled(pattern: str) -> Any:
    import re2  # loaded only where there are rules

    options = re2.Options()
    options.log_errors = False
    try:
        return re2.compile(pattern, options)
    except re2.error as error:
        reason = error.args[0] if error.args else error
        shown = reason.decode() if isinstance(reason, bytes) else reason
        raise MappingError(f"the pattern {pattern} cannot be used: {shown}") from None


def _applied(rule: _Rule, name: str) -> str | None:
    if rule.pattern is None:
        return name
    if rule.pattern.fullmatch(name) is None:
        return None
    pieces = _replacement(rule.replacement, rule.pattern.groups)
    out: list[str] = []
    end = position = 0
    while position <= len(name) and (found := rule.pattern.search(name, position)) is not None:
        out.append(name[end : found.start()])
        out += [piece if isinstance(piece, str) else found.group(piece) or "" for piece in pieces]
        end = found.end()
        position = end if end > found.start() else end + 1
        if end == len(name) and position > end:
            break
    out.append(name[end:])
    result = "".join(out)
    fold: dict[str, Callable[[], str]] = {"L": result.lower, "U": result.upper}
    return fold.get(rule.case, lambda: result)()


def _replacement(text: str, group_count: int) -> list[str | int]:
    """A replacement as literal texts and numbers of groups. Raises: MappingError."""
    pieces: list[str | int] = []
    position = 0
    while position < len(text):
        character = text[position]
        position += 1
        if character == "\\" and position < len(text):
            pieces.append(text[position])
            position += 1
            continue
        if character != "$":
            pieces.append(character)
            continue
        digits = re.compile(r"[0-9]*", re.ASCII).match(text, position)
        number = digits.group() if digits is not None else ""
        if not number:
            raise MappingError(f"the replacement {text} has a $ without a group's number")
        taken = 1
        if int(number[0]) > group_count:
            if not group_count:
                raise MappingError(f"the replacement {text} has ${number}, the pattern no group")
            pieces.append("$")  # as it is written
            continue
        while taken < len(number) and int(number[: taken + 1]) <= group_count:
            taken += 1
        pieces.append(int(number[:taken]))
        position += taken
    return pieces
