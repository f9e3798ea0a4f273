"""Whether an object still is what the operator applied, so that nothing is written where it is.

A server-side apply of the same intent changes nothing and still is a write; an idle operator sends
none. The digest of the intent is kept on the object; what others have changed since is found by
comparing the intent with what is there; a quantity may come back in another spelling. Lists whose
items have a key are compared by it, as the API server merges them, so that what somebody else has
put in hides nothing. Whatever else the API server rewrites would differ for ever: `differences`
right after an apply tells what it is, and that very value is tolerated, no other.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from fractions import Fraction
from typing import Any

from barnabas_operator.kubernetes.api import Object
from barnabas_operator.kubernetes.objects import annotations_of
from barnabas_operator.kubernetes.quantity import read_quantity
from barnabas_operator.reconcile.broker.revision import digest

APPLIED_ANNOTATION = "barnabas.dev/applied"
# Of mounts, owners, containers and all else, in an order in which the first that fits is right.
_MERGE_KEYS = ("mountPath", "uid", "name")


def marked(intent: Object) -> Object:
    """The intent with its own digest on it."""
    metadata = dict(intent["metadata"])
    annotations = {**(metadata.get("annotations") or {}), APPLIED_ANNOTATION: digest(intent)}
    return {**intent, "metadata": {**metadata, "annotations": annotations}}


# A field that is otherwise than it was meant, and a digest of what it is.
Difference = tuple[str, str]


def differences(intent: Mapping[str, Any], found: Mapping[str, Any]) -> frozenset[Difference]:
    """The fields of the intent that are otherwise in what was found."""
    return frozenset((path, digest(value)) for path, value in _different("", intent, found))


def is_applied(intent: Object, found: Object | None, tolerated: frozenset[Difference]) -> bool:
    """Whether nothing has to be written; `intent` is a marked one."""
    if found is None or not is_marked_as(intent, found):
        return False
    return differences(intent, found) <= tolerated


def is_marked_as(intent: Object, found: Object | None) -> bool:
    """Whether this very intent was the last to be applied; `intent` is a marked one."""
    mark = annotations_of(intent).get(APPLIED_ANNOTATION)
    return found is not None and annotations_of(found).get(APPLIED_ANNOTATION) == mark


def _different(path: str, intent: Any, found: Any) -> Iterator[tuple[str, Any]]:
    if intent == found:
        return  # as almost always, and at the speed of C
    if isinstance(intent, Mapping):
        if not isinstance(found, Mapping):
            # The API server drops what is empty.
            if intent or found is not None:
                yield path, found
            return
        for key, value in intent.items():
            yield from _different(f"{path}.{key}", value, found.get(key))
    elif isinstance(intent, list):
        key = _merge_key(intent)
        if key and isinstance(found, list):
            there = {str(one.get(key)): one for one in found if isinstance(one, Mapping)}
            for one in intent:
                yield from _different(f"{path}[{one[key]}]", one, there.get(str(one[key])))
            return
        if not isinstance(found, list) or len(found) != len(intent):
            if intent or found:
                yield path, found
            return
        for position, (one, other) in enumerate(zip(intent, found, strict=True)):
            yield from _different(f"{path}[{position}]", one, other)
    elif not _is_same(intent, found):
        yield path, found


def _merge_key(items: list[Any]) -> str:
    """The key by which the API server merges lists such as this, empty for one that has none."""
    for key in _MERGE_KEYS:
        values = [one.get(key) if isinstance(one, Mapping) else None for one in items]
        if values and None not in values and len(set(map(str, values))) == len(values):
            return key
    return ""


def _is_same(intent: object, found: object) -> bool:
    """Also when the empty is left out, or a number has two spellings: `1.5Ti` and `1536Gi`."""
    if intent == found or (intent == "" and found is None):
        return True
    one, other = _quantity(intent), _quantity(found)
    return one is not None and one == other


def _quantity(value: object) -> Fraction | None:
    if isinstance(value, bool) or not isinstance(value, int | str):
        return None
    return read_quantity(str(value))
