"""Groups that nobody declared, shown as objects: which come, which go, which stay as they are."""

from typing import Any

from barnabas_operator.group_spec import GroupSpec
from barnabas_operator.reconcile.group.discovery import (
    GONE_AFTER_MS,
    GROUPS_MAX,
    GroupDiscovery,
    object_name,
)

Pairs = list[tuple[dict[str, Any], GroupSpec]]


def broker(glob: str | None = "*") -> dict[str, Any]:
    annotations = {} if glob is None else {"barnabas.dev/discover-groups": glob}
    return {
        "apiVersion": "barnabas.dev/v1alpha1",
        "kind": "Broker",
        "metadata": {
            "namespace": "kafka",
            "name": "main",
            "uid": "u",
            "annotations": annotations,
        },
    }


def pairs(*manifests: dict[str, Any]) -> Pairs:
    return [(manifest, GroupSpec.from_manifest(manifest)) for manifest in manifests]


def declared(group_id: str) -> dict[str, Any]:
    return {"metadata": {"namespace": "shop", "name": "own"}, "spec": {"groupId": group_id}}


def test_groups_that_the_glob_wants_get_objects_that_belong_to_the_broker() -> None:
    """operator.md 8.1: opt-in by a glob."""
    plan = GroupDiscovery().plan(broker("bill*"), ["billing", "other"], [], 0)
    (made,) = plan.made
    assert made["spec"] == {"brokerRef": {"name": "main"}, "groupId": "billing"}
    assert made["metadata"]["namespace"] == "kafka"
    (owner,) = made["metadata"]["ownerReferences"]
    assert (owner["kind"], owner["uid"]) == ("Broker", "u")
    assert GroupSpec.from_manifest(made).is_discovered
    assert GroupDiscovery().plan(broker("bill*"), ["billing"], pairs(made), 0).made == ()


def test_a_declared_group_needs_no_other_object() -> None:
    """And what was discovered earlier gives way, though it is older."""
    (shown,) = GroupDiscovery().plan(broker(), ["billing"], [], 0).made
    shown["metadata"]["creationTimestamp"] = "2026-01-01T00:00:00Z"
    own = declared("billing")
    own["metadata"]["creationTimestamp"] = "2026-02-01T00:00:00Z"
    both = pairs(shown, own)
    assert both[1][1].age < both[0][1].age
    plan = GroupDiscovery().plan(broker(), ["billing"], both, 0)
    assert (plan.made, plan.deleted) == ((), (shown,))


def test_an_object_goes_when_its_group_has_been_gone_for_a_while() -> None:
    discovery = GroupDiscovery()
    shown = pairs(*discovery.plan(broker(), ["billing"], [], 0).made)
    assert discovery.plan(broker(), [], shown, 1000).deleted == ()
    assert discovery.plan(broker(), ["billing"], shown, 2000).deleted == ()
    assert discovery.plan(broker(), [], shown, 3000).deleted == ()
    assert discovery.plan(broker(), [], shown, 3000 + GONE_AFTER_MS - 1).deleted == ()
    assert discovery.plan(broker(), [], shown, 3000 + GONE_AFTER_MS).deleted == (shown[0][0],)


def test_without_the_annotation_what_was_made_goes_and_what_people_made_stays() -> None:
    discovery = GroupDiscovery()
    shown = discovery.plan(broker(), ["billing"], [], 0).made
    plan = discovery.plan(broker(None), ["billing", "own"], pairs(*shown, declared("own")), 0)
    assert (plan.made, plan.deleted) == ((), shown)


def test_there_are_never_more_than_so_many() -> None:
    ids = [f"group-{number:04}" for number in range(3 * GROUPS_MAX)]
    discovery = GroupDiscovery()
    first = discovery.plan(broker(), ids, [], 0).made
    assert len(first) == GROUPS_MAX
    assert discovery.plan(broker(), ids, pairs(*first), 0).made == ()


def test_every_group_id_has_a_name_of_its_own() -> None:
    names = {object_name("main", one) for one in ("a.b", "a-b", "A-B", "ä", "_", "x" * 300)}
    assert len(names) == 6
    for name in names:
        assert len(name) < 120
        assert name.strip("-") == name
        assert name.isascii()
