"""The objects of a Kubernetes API server in memory, with the rules that operators stumble over.

Resource versions rise over all objects, and a write that changes nothing raises none. A spec and
its status are written apart, and only the spec counts generations. Custom resources get their CRD's
defaults, and lose fields that it does not name. Deleting waits for finalizers, takes dependants
along, and a namespace goes when it is empty. Conflicts, uid preconditions and server-side apply
(per manager, whole lists) are modelled; validation beyond names, controllers and quotas are not.
"""

import json
import marshal
import uuid
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from functools import cache
from typing import Any, TypeVar, cast

from barnabas_operator.crd import KINDS, definition
from barnabas_operator.kubernetes import kinds as known
from barnabas_operator.kubernetes.kinds import ALL_KINDS, Kind

T = TypeVar("T")
Manifest = dict[str, Any]
Event = tuple[int, Kind, str, Manifest]

CUSTOM_RESOURCE_DEFINITION = Kind(
    api_version="apiextensions.k8s.io/v1",
    kind="CustomResourceDefinition",
    plural="customresourcedefinitions",
    is_namespaced=False,
)
SERVED = (*ALL_KINDS, CUSTOM_RESOURCE_DEFINITION)
WITH_STATUS = frozenset(
    {
        known.TOPIC,
        known.BROKER,
        known.CONSUMER_GROUP,
        known.USER,
        known.STATEFUL_SET,
        known.POD,
        known.PERSISTENT_VOLUME_CLAIM,
        known.POD_DISRUPTION_BUDGET,
        known.NAMESPACE,
    }
)


class Refused(Exception):
    """What the server answers instead of doing it."""

    def __init__(self, code: int, reason: str, message: str) -> None:
        super().__init__(message)
        self.code = code
        self.reason = reason


class FakeStore:
    """All objects; `listeners` hear of every change after it was made."""

    def __init__(
        self,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
        new_uid: Callable[[], str] = lambda: str(uuid.uuid4()),
    ) -> None:
        self.now = now
        self._new_uid = new_uid
        self.objects: dict[Kind, dict[tuple[str, str], Manifest]] = {kind: {} for kind in SERVED}
        self.events: list[Event] = []
        self.listeners: list[Callable[[Event], None]] = []
        self.version = 1000
        self._applied: dict[tuple[Kind, str, str, str], Manifest] = {}
        self._schemas = {kind: _schema(kind) for kind in ALL_KINDS if kind.kind in KINDS}
        for name in ("default", "kube-system"):
            self.create(known.NAMESPACE, "", {"metadata": {"name": name}})

    def get(self, kind: Kind, namespace: str, name: str) -> Manifest:
        try:
            return self.objects[kind][namespace, name]
        except KeyError:
            raise Refused(404, "NotFound", f'{kind.plural} "{name}" not found') from None

    def list(
        self, kind: Kind, namespace: str, matches: Callable[[Manifest], bool]
    ) -> list[Manifest]:
        if kind not in self.objects:
            raise Refused(404, "NotFound", "the server could not find the requested resource")
        return [
            one
            for (where, _), one in sorted(self.objects[kind].items())
            if (not namespace or where == namespace) and matches(one)
        ]

    def create(self, kind: Kind, namespace: str, manifest: Manifest) -> Manifest:
        one = copied(manifest)
        metadata = one.setdefault("metadata", {})
        if not metadata.get("name") and metadata.get("generateName"):
            metadata["name"] = metadata["generateName"] + uuid.uuid4().hex[:5]
        name = metadata["name"]
        self._check_namespace(kind, namespace, metadata)
        if (namespace, name) in self.objects[kind]:
            raise Refused(409, "AlreadyExists", f'{kind.plural} "{name}" already exists')
        if metadata.pop("resourceVersion", None):
            raise Refused(400, "BadRequest", "resourceVersion should not be set")
        if metadata.get("uid"):
            raise Refused(409, "Conflict", "Precondition failed: UID in precondition")
        one |= {"apiVersion": kind.api_version, "kind": kind.kind}
        if namespace:
            metadata["namespace"] = namespace
        metadata |= {
            "uid": self._new_uid(),
            "generation": 1,
            "creationTimestamp": _text(self.now()),
        }
        if kind in WITH_STATUS:
            one.pop("status", None)
        if kind is known.NAMESPACE:
            one["status"] = {"phase": "Active"}
        self._store(kind, one, "ADDED")
        return one

    def update(
        self,
        kind: Kind,
        namespace: str,
        name: str,
        change: Callable[[Manifest], Manifest],
        *,
        is_status: bool = False,
    ) -> Manifest:
        """Store what `change` makes of the object; versions and uids in it are preconditions."""
        old = self.get(kind, namespace, name)
        new = change(copied(old))
        for field, code in (("uid", "Precondition failed: UID"), ("resourceVersion", "modified")):
            if new["metadata"].get(field) not in (None, old["metadata"][field]):
                raise Refused(409, "Conflict", f'cannot be fulfilled on "{name}": {code}')
        new["metadata"] |= {
            key: old["metadata"][key] for key in ("uid", "creationTimestamp", "name")
        }
        new["metadata"]["generation"] = old["metadata"]["generation"]
        if is_status:
            new = {**copied(old), "status": new.get("status")}
        elif kind in WITH_STATUS:
            new.pop("status", None)
            if "status" in old:
                new["status"] = copied(old["status"])
        new["metadata"]["resourceVersion"] = old["metadata"]["resourceVersion"]
        if kind in self._schemas:
            new = _fitted(new, self._schemas[kind])
        new = {key: value for key, value in new.items() if value is not None}
        if new == old:
            return old
        if new.get("spec") != old.get("spec"):
            new["metadata"]["generation"] += 1
        if _is_going(new) and not new["metadata"].get("finalizers"):
            self._remove(kind, new)
        else:
            self._store(kind, new, "MODIFIED")
        return new

    def apply(
        self, kind: Kind, namespace: str, name: str, manager: str, intent: Manifest
    ) -> Manifest:
        """A server-side apply with force: what the manager no longer names goes."""
        key = (kind, namespace, name, manager)
        before = self._applied.get(key, {})
        wanted = copied(intent)
        if (namespace, name) not in self.objects[kind]:
            one = self.create(kind, namespace, wanted)
        else:
            one = self.update(
                kind, namespace, name, lambda old: _merged(_without(old, before, wanted), wanted)
            )
        self._applied[key] = copied(intent)
        return one

    def delete(self, kind: Kind, namespace: str, name: str, uid: str | None = None) -> Manifest:
        one = self.get(kind, namespace, name)
        if uid not in (None, one["metadata"]["uid"]):
            raise Refused(409, "Conflict", "Precondition failed: UID in precondition")
        if kind is known.NAMESPACE:
            return self._delete_namespace(name, one)
        if one["metadata"].get("finalizers"):
            if not _is_going(one):
                going = copied(one)
                going["metadata"] |= {
                    "deletionTimestamp": _text(self.now()),
                    "deletionGracePeriodSeconds": 0,
                    "generation": one["metadata"]["generation"] + 1,
                }
                self._store(kind, going, "MODIFIED")
            return self.get(kind, namespace, name)
        self._remove(kind, one)
        return one

    def _delete_namespace(self, name: str, one: Manifest) -> Manifest:
        going = copied(one)
        going["metadata"]["deletionTimestamp"] = _text(self.now())
        going["status"] = {"phase": "Terminating"}
        self._store(known.NAMESPACE, going, "MODIFIED")
        for kind, objects in self.objects.items():
            for where, other in list(objects):
                if where == name and (where, other) in objects:
                    self.delete(kind, where, other)
        self._finish_namespace(name)
        return going

    def _finish_namespace(self, name: str) -> None:
        one = self.objects[known.NAMESPACE].get(("", name))
        is_empty = not any(
            where == name for objects in self.objects.values() for where, _ in objects
        )
        if one is not None and _is_going(one) and is_empty:
            self._remove(known.NAMESPACE, one)

    def _check_namespace(self, kind: Kind, namespace: str, metadata: Manifest) -> None:
        if not kind.is_namespaced:
            return
        if metadata.get("namespace", namespace) != namespace:
            raise Refused(400, "BadRequest", "the namespace does not match the request")
        if _is_going(self.get(known.NAMESPACE, "", namespace)):
            raise Refused(403, "Forbidden", f"namespace {namespace} is being terminated")

    def _store(self, kind: Kind, one: Manifest, event: str) -> None:
        if kind in self._schemas:
            fitted = _fitted(one, self._schemas[kind])
            one.clear()
            one.update(fitted)
        self.version += 1
        one["metadata"]["resourceVersion"] = str(self.version)
        self.objects[kind][one["metadata"].get("namespace", ""), one["metadata"]["name"]] = one
        self._tell(kind, event, one)

    def _remove(self, kind: Kind, one: Manifest) -> None:
        namespace, name = one["metadata"].get("namespace", ""), one["metadata"]["name"]
        self.objects[kind].pop((namespace, name), None)
        self.version += 1
        gone = copied(one)
        gone["metadata"]["resourceVersion"] = str(self.version)
        self._tell(kind, "DELETED", gone)
        for other_kind, where, other in list(self._dependants(one["metadata"]["uid"])):
            self.delete(other_kind, where, other)
        if namespace:
            self._finish_namespace(namespace)

    def _dependants(self, uid: str) -> Iterator[tuple[Kind, str, str]]:
        for kind, objects in self.objects.items():
            for (namespace, name), one in objects.items():
                owners = one["metadata"].get("ownerReferences") or ()
                if owners and all(owner["uid"] == uid for owner in owners):
                    yield kind, namespace, name

    def _tell(self, kind: Kind, event: str, one: Manifest) -> None:
        told: Event = (self.version, kind, event, copied(one))
        self.events.append(told)
        for listener in tuple(self.listeners):
            listener(told)


def copied(value: T) -> T:
    """A deep copy of what JSON can say. Slower ones took a third of the operator's tests."""
    try:
        return cast("T", marshal.loads(marshal.dumps(cast("Any", value))))
    except ValueError:
        # The value of an enum is text to a client that sends JSON, and not to marshal.
        return cast("T", json.loads(json.dumps(value)))


def merge_patched(target: Any, patch: Any) -> Any:
    """RFC 7386."""
    if not isinstance(patch, dict):
        return patch
    result = dict(target) if isinstance(target, dict) else {}
    for key, value in patch.items():
        if value is None:
            result.pop(key, None)
        else:
            result[key] = merge_patched(result.get(key), value)
    return result


def _merged(target: Any, intent: Any) -> Any:
    if not isinstance(intent, dict) or not isinstance(target, dict):
        return copied(intent)
    return {
        **target,
        **{key: _merged(target.get(key), value) for key, value in intent.items()},
    }


def _without(target: Any, before: Any, wanted: Any) -> Any:
    """The target without the fields that were applied before and are not any more."""
    if not all(isinstance(one, dict) for one in (target, before, wanted)):
        return target
    return {
        key: _without(value, before.get(key), wanted.get(key)) if key in wanted else value
        for key, value in target.items()
        if key in wanted or key not in before or key in ("metadata", "apiVersion", "kind")
    }


@cache
def _schema(kind: Kind) -> Manifest:
    versions = definition(kind.kind)["spec"]["versions"]
    schema: Manifest = next(
        version["schema"]["openAPIV3Schema"]
        for version in versions
        if version["name"] == kind.version
    )
    return schema


def _fitted(one: Manifest, schema: Manifest) -> Manifest:
    """The resource with its schema's defaults and without what the schema does not name."""
    return {
        "apiVersion": one["apiVersion"],
        "kind": one["kind"],
        "metadata": one["metadata"],
        **{
            key: _pruned(one[key], schema["properties"][key])
            for key in ("spec", "status")
            if one.get(key) is not None
        },
    }


def _pruned(value: Any, schema: Manifest) -> Any:
    if schema.get("x-kubernetes-preserve-unknown-fields") or value is None:
        return value
    if isinstance(value, list):
        return [_pruned(one, schema.get("items", {})) for one in value]
    if not isinstance(value, dict):
        return value
    if isinstance(schema.get("additionalProperties"), dict):
        return {key: _pruned(one, schema["additionalProperties"]) for key, one in value.items()}
    properties: Manifest = schema.get("properties", {})
    kept = {
        key: _pruned(one, properties[key])
        for key, one in value.items()
        if key in properties and not (one is None and not properties[key].get("nullable"))
    }
    for key, field in properties.items():
        if "default" in field and key not in kept:
            kept[key] = copied(field["default"])
    return kept


def _is_going(one: Manifest) -> bool:
    return "deletionTimestamp" in one["metadata"]


def _text(moment: datetime) -> str:
    return moment.strftime("%Y-%m-%dT%H:%M:%SZ")


def has_fields(one: Manifest, selector: str) -> bool:
    """Whether a field selector (`metadata.name=x,type=y`) lets it through."""
    for term in selector.split(",") if selector else ():
        path, _, value = term.partition("=")
        found: Any = one
        for name in path.split("."):
            found = (found or {}).get(name)
        if found != value:
            return False
    return True
