"""Masks: fields of records that nobody sees here, whatever they ask for.

A file has rules; all that fit a topic count:

    - topics: "payments*"
      mask: [key, header.authorization, json.card.number, json.items.*.iban]

A mask is applied before a filter looks, so that no filter tells what is behind it, and before
export. Where the value cannot be taken apart although a path in it is masked, all of it is masked.
A topic with masks has no raw bytes to show, and its records are not sent again: the copy would tell
what is behind them, or lose it.

Source: CON-144. Invariant: nothing of a masked field leaves this module's `apply_*` functions, not
in an error either.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Final

from barnabas_console.records.content import Content, Format, UnreadableError, as_tree, json_tree
from barnabas_console.records.decoding import RulesError, rule_entries
from barnabas_console.records.field_paths import replaced_at
from barnabas_console.records.filters import FieldKind, FilterError, parse_field

MASK: Final = "•••"
_UNREADABLE: Final = "fields of this topic are masked, and this value could not be taken apart"


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicMask:
    """What of a topic's records is masked; header names are in lower case."""

    key: bool = False
    value: bool = False
    headers: frozenset[str] = frozenset()
    paths: tuple[tuple[str, ...], ...] = ()

    def __bool__(self) -> bool:
        return self.key or self.value or bool(self.headers) or bool(self.paths)

    @property
    def touches_value(self) -> bool:
        """Whether something of the value is masked."""
        return self.value or bool(self.paths)

    def apply_to_key(self, content: Content) -> Content:
        """Return the key as it may be shown."""
        return _masked(content) if self.key and content.format is not Format.NULL else content

    def apply_to_value(self, content: Content) -> Content:
        """Return the value as it may be shown."""
        if not self.touches_value or content.format is Format.NULL:
            return content
        if self.value:
            return _masked(content)
        if not content.is_json:
            return _masked(content, _UNREADABLE)
        try:
            tree = content.tree[0] if content.tree else json_tree(content.text or "")
            for path in self.paths:
                tree = replaced_at(tree, path, MASK)
            return as_tree(tree, content.format, content.size_bytes, content.schema_id)
        except UnreadableError:
            return _masked(content, _UNREADABLE)

    def apply_to_header(self, name: str, text: str | None) -> str | None:
        """Return a header's content as it may be shown."""
        return MASK if text is not None and name.lower() in self.headers else text


NO_MASK: Final = TopicMask()


class MaskRules:
    """What the file says of topics."""

    def __init__(self, rules: Sequence[tuple[str, TopicMask]] = ()) -> None:
        """Rules are pairs of a glob and what it masks."""
        self._rules = tuple(rules)

    def for_topic(self, topic: str) -> TopicMask:
        """Return all that is masked of a topic."""
        masks = [mask for glob, mask in self._rules if fnmatchcase(topic, glob)]
        if not masks:
            return NO_MASK
        return TopicMask(
            key=any(mask.key for mask in masks),
            value=any(mask.value for mask in masks),
            headers=frozenset().union(*(mask.headers for mask in masks)),
            paths=tuple(dict.fromkeys(path for mask in masks for path in mask.paths)),
        )


def read_mask_rules(path: Path) -> MaskRules:
    """Read the file. Raises: RulesError, OSError."""
    rules = []
    for number, entry in enumerate(rule_entries(path, {"topics", "mask"}), 1):
        fields = entry.get("mask")
        if not isinstance(fields, list) or not fields:
            raise RulesError(f"{path}: rule {number} masks nothing, such as 'mask: [json.iban]'")
        try:
            rules.append((entry["topics"], _mask([str(one) for one in fields])))
        except FilterError as error:
            raise RulesError(f"{path}: rule {number}: {error}") from None
    return MaskRules(rules)


def _mask(fields: Sequence[str]) -> TopicMask:
    parsed = [parse_field(text) for text in fields]
    for (kind, _), text in zip(parsed, fields, strict=True):
        if kind not in (FieldKind.KEY, FieldKind.VALUE, FieldKind.HEADER, FieldKind.JSON):
            raise FilterError(f"{text} cannot be masked", 0)
    kinds = {kind for kind, _ in parsed}
    return TopicMask(
        key=FieldKind.KEY in kinds,
        value=FieldKind.VALUE in kinds,
        headers=frozenset(path[0].lower() for kind, path in parsed if kind is FieldKind.HEADER),
        paths=tuple(path for kind, path in parsed if kind is FieldKind.JSON),
    )


def _masked(content: Content, problem: str | None = None) -> Content:
    return Content(format=Format.MASKED, text=MASK, size_bytes=content.size_bytes, problem=problem)
