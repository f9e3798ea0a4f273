"""Rules about records, as people write them, and what they mean in SQL. Pure.

    - {name: amount-positive, expression: amount > 0}
    - {field: email, not-null: true}
    - {field: email, regex: '[^@]+@[^@]+'}
    - {field: amount, range: {min: 0, max: 10000}}
    - {field: currency, set: [EUR, USD]}
    - {name: no-doubles, unique-in-batch: [order_id]}

A rule holds for a record where its condition is true. A field that is null breaks only `not-null`:
whether it may be missing is one question, what it looks like another. An `expression` is taken at
its word: null, such as of a comparison with null, is not true, so the record breaks it.

Not here: evaluating them (`rules.py`); whether an expression is SQL, which Spark knows.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any, Final

from barnabas_pipelines.errors import OptionsError

RULES_MAX: Final = 200
_NAME: Final = re.compile(r"[A-Za-z][A-Za-z0-9_.-]*")
_FIELD: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*(\.[A-Za-z_][A-Za-z0-9_]*)*")
_RANGE_KEYS: Final = ("min", "max", "above", "below")
_RANGE_SIGNS: Final = {"min": ">=", "max": "<=", "above": ">", "below": "<"}


class RuleKind(Enum):
    """What a rule looks at; each is also the word by which it is written."""

    EXPRESSION = "expression"
    NOT_NULL = "not-null"
    RANGE = "range"
    REGEX = "regex"
    SET = "set"
    UNIQUE = "unique-in-batch"


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """A rule: the records for which `condition`, in SQL, is not true break it.

    Where it is `UNIQUE` there is no condition, but `fields` that together occur once in a batch.
    `pattern` is the regular expression of a `REGEX`, in Java's words.
    """

    name: str
    kind: RuleKind
    condition: str | None
    fields: tuple[str, ...] = ()
    text: str
    pattern: str | None = None


def parse_rules(document: Any) -> tuple[Rule, ...]:
    """The rules of a YAML list.

    Raises: OptionsError naming the rule, and what is wrong with it.
    """
    if document is None:
        return ()
    if not isinstance(document, Sequence) or isinstance(document, str):
        raise OptionsError("--rules: it must be a list of rules")
    if len(document) > RULES_MAX:
        raise OptionsError(f"--rules: there are {len(document)} rules; the most is {RULES_MAX}")
    rules = tuple(_rule(number, one) for number, one in enumerate(document, start=1))
    names = [rule.name for rule in rules]
    for name in names:
        if names.count(name) > 1:
            raise OptionsError(f"--rules: two rules are called {name}")
    return rules


def _rule(number: int, given: Any) -> Rule:
    where = f"--rules: rule {number}"
    if not isinstance(given, Mapping):
        raise OptionsError(f"{where}: it must be a mapping, such as {{field: a, not-null: true}}")
    words = {str(key).replace("_", "-"): value for key, value in given.items()}
    if isinstance(words.get("name"), str):
        where += f" ({words['name']})"
    kinds = [kind for kind in RuleKind if kind.value in words]
    if len(kinds) != 1:
        known = ", ".join(kind.value for kind in RuleKind)
        raise OptionsError(f"{where}: it must have exactly one of {known}")
    (kind,) = kinds
    unknown = set(words) - {"name", "field", kind.value}
    if unknown:
        raise OptionsError(f"{where}: {sorted(unknown)[0]} does not belong to a rule of this kind")
    try:
        return _KINDS[kind](words)
    except ValueError as error:
        raise OptionsError(f"{where}: {error}") from None


def _expression(words: Mapping[str, Any]) -> Rule:
    text = words["expression"]
    if "field" in words:
        raise ValueError("an expression names its fields by itself")
    if not isinstance(text, str) or not text.strip():
        raise ValueError("expression must be a condition in SQL, such as amount > 0")
    if "name" not in words:
        raise ValueError("an expression needs a name")
    condition = " ".join(text.split())
    return Rule(
        name=_name(words, ""), kind=RuleKind.EXPRESSION, condition=condition, text=condition
    )


def _not_null(words: Mapping[str, Any]) -> Rule:
    if words["not-null"] is not True:
        raise ValueError("not-null can only be true; leave the rule out otherwise")
    field = _field(words)
    return Rule(
        name=_name(words, f"{field}-not-null"),
        kind=RuleKind.NOT_NULL,
        condition=f"{quoted(field)} IS NOT NULL",
        fields=(field,),
        text=f"{field} is there",
    )


def _range(words: Mapping[str, Any]) -> Rule:
    limits, field = words["range"], _field(words)
    if not isinstance(limits, Mapping) or not limits or set(limits) - set(_RANGE_KEYS):
        raise ValueError("range must have some of min, max (inclusive), above, below (exclusive)")
    parts = [
        f"{quoted(field)} {_RANGE_SIGNS[key]} {literal(limits[key])}"
        for key in _RANGE_KEYS
        if key in limits
    ]
    text = " and ".join(f"{field} {_RANGE_SIGNS[key]} {limits[key]}" for key in limits)
    return Rule(
        name=_name(words, f"{field}-range"),
        kind=RuleKind.RANGE,
        condition=_or_null(field, " AND ".join(parts)),
        fields=(field,),
        text=text,
    )


def _regex(words: Mapping[str, Any]) -> Rule:
    pattern, field = words["regex"], _field(words)
    if not isinstance(pattern, str) or not pattern:
        raise ValueError("regex must be a regular expression, as Java knows them")
    # The whole of the text has to match: a search that finds something anywhere hides mistakes.
    whole = literal(rf"\A(?:{pattern})\z")
    return Rule(
        name=_name(words, f"{field}-regex"),
        kind=RuleKind.REGEX,
        condition=_or_null(field, f"CAST({quoted(field)} AS STRING) RLIKE {whole}"),
        fields=(field,),
        text=f"{field} is like {pattern}",
        pattern=pattern,
    )


def _set(words: Mapping[str, Any]) -> Rule:
    members, field = words["set"], _field(words)
    if not isinstance(members, Sequence) or isinstance(members, str) or not members:
        raise ValueError("set must be a list of values")
    shown = ", ".join(str(member) for member in members)
    listed = ", ".join(literal(member) for member in members)
    return Rule(
        name=_name(words, f"{field}-set"),
        kind=RuleKind.SET,
        condition=_or_null(field, f"{quoted(field)} IN ({listed})"),
        fields=(field,),
        text=f"{field} is one of {shown}",
    )


def _unique(words: Mapping[str, Any]) -> Rule:
    given = words["unique-in-batch"]
    if "field" in words:
        raise ValueError("unique-in-batch names its fields by itself")
    names = [given] if isinstance(given, str) else given
    if not isinstance(names, Sequence) or not names:
        raise ValueError("unique-in-batch must be a field or a list of fields")
    fields = tuple(_checked_field(name) for name in names)
    return Rule(
        name=_name(words, f"{'-'.join(fields)}-unique"),
        kind=RuleKind.UNIQUE,
        condition=None,
        fields=fields,
        text=f"{', '.join(fields)} occurs once in a batch",
    )


_KINDS: Final = {
    RuleKind.EXPRESSION: _expression,
    RuleKind.NOT_NULL: _not_null,
    RuleKind.RANGE: _range,
    RuleKind.REGEX: _regex,
    RuleKind.SET: _set,
    RuleKind.UNIQUE: _unique,
}


def _or_null(field: str, condition: str) -> str:
    return f"{quoted(field)} IS NULL OR ({condition})"


def _name(words: Mapping[str, Any], default: str) -> str:
    name = words.get("name", default)
    if not isinstance(name, str) or _NAME.fullmatch(name) is None:
        raise ValueError(f"{name!r} is no name: letters, digits, dots, dashes and underscores")
    return name


def _field(words: Mapping[str, Any]) -> str:
    if "field" not in words:
        raise ValueError("it needs a field")
    return _checked_field(words["field"])


def _checked_field(name: Any) -> str:
    if not isinstance(name, str) or _FIELD.fullmatch(name) is None:
        raise ValueError(f"{name!r} is no field; write it as a, or as a.b in a struct")
    return name


def quoted(path: str) -> str:
    """A field as SQL has it, whatever its name is."""
    return ".".join(f"`{part}`" for part in path.split("."))


def literal(value: Any) -> str:
    """A value of YAML as SQL has it. Raises: ValueError for what is no single value."""
    match value:
        case bool():
            return "TRUE" if value else "FALSE"
        case int() | float():
            if not math.isfinite(value):
                raise ValueError(f"{value} is no number to compare with")
            return repr(value)
        case str():
            escaped = value.replace("\\", "\\\\").replace("'", "\\'")
            return f"'{escaped}'"
    raise ValueError(f"{value!r} must be text, a number, true or false")
