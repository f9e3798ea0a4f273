"""Whether an object still is what the operator applied, so that nothing is written where it is.

A server-side apply of the same intent changes nothing and still is a write; an idle operator sends
none. The digest of the intent is kept on the object; what others have changed since is found by
comparing the intent with what is there. Where the API server rewrites a value (`1000m` as `1`) the
two differ for ever: `differences` right after an apply tells which those are.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from barnabas_operator.kubernetes.api import Object
from barnabas_operator.kubernetes.objects import annotations_of
from barnabas_operator.reconcile.broker.revision import digest

APPLIED_ANNOTATION = "barnabas.dev/applied"


def marked(intent: Object) -> Object:
    """The intent with its own digest on it."""
    metadata = dict(intent["metadata"])
    annotations = {**(metadata.get("annotations") or {}), APPLIED_ANNOTATION: digest(intent)}
    return {**intent, "metadata": {**metadata, "annotations": annotations}}


def differences(intent: Mapping[str, Any], found: Mapping[str, Any]) -> frozenset[str]:
    """The fields of the intent that are otherwise in what was found."""
    return frozenset(_different("", intent, found))


def is_applied(intent: Object, found: Object | None, tolerated: frozenset[str]) -> bool:
    """Whether nothing has to be written; `intent` is a marked one."""
    if found is None:
        return False
    mark = annotations_of(intent).get(APPLIED_ANNOTATION)
    if annotations_of(found).get(APPLIED_ANNOTATION) != mark:
        return False
    return differences(intent, found) <= tolerated


def _different(path: str, intent: Any, found: Any) -> Iterator[str]:
    if isinstance(intent, Mapping):
        if not isinstance(found, Mapping):
            # The API server drops what is empty.
            if intent or found is not None:
                yield path
            return
        for key, value in intent.items():
            yield from _different(f"{path}.{key}", value, found.get(key))
    elif isinstance(intent, list):
        if not isinstance(found, list) or len(found) != len(intent):
            if intent or found:
                yield path
            return
        for position, (one, other) in enumerate(zip(intent, found, strict=True)):
            yield from _different(f"{path}[{position}]", one, other)
    elif intent != found and not (intent == "" and found is None):
        yield path
