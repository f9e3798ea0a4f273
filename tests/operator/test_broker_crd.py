"""The Broker CRD: what it refuses, and that it means the same as `broker_spec`."""

import re
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import yaml

from barnabas_operator.broker_spec import BrokerSpec, DeleteClaim, UpdatePolicy, Volume
from barnabas_operator.crd import definition, problems
from barnabas_operator.reconcile.broker.broker_plan import plan_broker
from barnabas_operator.reconcile.broker.broker_status import broker_status
from barnabas_operator.reconcile.broker.elsewhere_status import elsewhere_status
from barnabas_operator.reconcile.broker.observed import (
    InFlight,
)
from barnabas_operator.reconcile.broker.scale_plan import Emptying, ScalePlan
from tests.operator.broker_manifests import COMPLETE, broker
from tests.operator.reconcile.broker.views import IMAGE, NOW, cluster, observed, partition, pod
from tests.support.simulated_clock import HandClock

ROOT = Path(__file__).resolve().parents[2]


def schema() -> dict[str, Any]:
    (version,) = definition("Broker")["spec"]["versions"]
    loaded: dict[str, Any] = version["schema"]["openAPIV3Schema"]
    return loaded


def test_a_complete_manifest_is_accepted_and_read() -> None:
    """All that the schema knows reaches the spec."""
    assert problems(COMPLETE) == []
    spec = BrokerSpec.from_manifest(COMPLETE)
    assert (spec.name, spec.namespace, spec.replicas) == ("demo", "kafka", 5)
    assert spec.volumes == (
        Volume(name="meta", size="20Gi", storage_class="fast"),
        Volume(name="data", size="1.5Ti", storage_class="slow"),
        Volume(name="more", size="1.5Ti", storage_class="fast"),
    )
    assert spec.volumes[1].size_bytes == 3 * 2**39
    assert (spec.metadata_volume, spec.delete_claim) == ("meta", DeleteClaim.WHEN_SCALED)
    assert spec.external is not None
    assert spec.external.address(2) == "b2.example.com:9002"
    assert dict(spec.config) == {"auto.create.topics.enable": "false", "num.io.threads": "9"}
    assert (set(spec.parked), set(spec.decommissioned)) == ({1}, {2})
    (window,) = spec.windows
    assert (window.duration, window.time_zone.key) == (timedelta(hours=4), "Europe/Berlin")
    assert spec.update_policy is UpdatePolicy.ON_APPROVAL
    assert spec.is_paused


@pytest.mark.parametrize(
    ("manifest", "expected"),
    [
        (broker(replica=3), "spec.replica: unknown field, did you mean 'replicas'?"),
        (broker(replicas=-1), "spec.replicas: must be at least 0"),
        (broker(storage={"size": "10 GB"}), "spec.storage.size: '10 GB' does not have the form"),
        (
            broker(storage={"size": "1Gi", "deleteClaim": "always"}),
            "spec.storage.deleteClaim: 'always' is not 'Never' or 'WhenScaled' or 'WhenDeleted' or"
            " 'Always', did you mean 'Always'?",
        ),
        (
            broker(storage={"volumes": [{"name": "a-b"}]}),
            "spec.storage.volumes.0.name: 'a-b' has characters that a name cannot have",
        ),
        (
            broker(updatePolicy="onApproval"),
            "spec.updatePolicy: 'onApproval' is not 'Automatic' or 'OnApproval' or 'Paused',"
            " did you mean 'OnApproval'?",
        ),
        (
            broker(terminationGracePeriodSeconds=5),
            "spec.terminationGracePeriodSeconds: must be at least 30",
        ),
        (
            broker(listeners={"external": {"type": "NodePort"}}),
            "spec.listeners.external: 'advertisedHost' is missing",
        ),
    ],
)
def test_each_mistake_is_told_with_its_field(manifest: dict[str, Any], expected: str) -> None:
    """Issue 6: manifests are checked by the schema that Kubernetes checks them by."""
    (problem,) = problems(manifest)
    assert str(problem).startswith(expected)


def test_the_crd_names_what_the_reference_asks_for() -> None:
    """operator.md 1: short name, category, status and scale, columns of the live truth."""
    crd = definition("Broker")
    assert crd["metadata"]["name"] == "brokers.barnabas.dev"
    assert crd["spec"]["names"]["shortNames"] == ["bb"]
    assert crd["spec"]["names"]["categories"] == ["barnabas"]
    (version,) = crd["spec"]["versions"]
    assert version["subresources"]["scale"] == {
        "specReplicasPath": ".spec.replicas",
        "statusReplicasPath": ".status.replicas",
        "labelSelectorPath": ".status.selector",
    }
    columns = " ".join(column["name"].upper() for column in version["additionalPrinterColumns"])
    assert columns == "READY CONTROLLER LEADERS URP OFFLINE DISK SAFE PLAN AGE"


def test_columns_show_fields_that_the_status_has() -> None:
    """A column whose path leads nowhere is empty for ever."""
    (version,) = definition("Broker")["spec"]["versions"]
    for column in version["additionalPrinterColumns"]:
        part = schema()
        path = column["jsonPath"].removeprefix(".").split(".")
        for name in path if path[0] != "metadata" else ():
            part = part["properties"][name]


def test_defaults_and_choices_are_those_of_the_spec() -> None:
    """The API server's defaults and ours must mean the same (style.md 7)."""
    fields = schema()["properties"]["spec"]["properties"]
    spec = BrokerSpec.from_manifest(broker())
    assert fields["updatePolicy"]["enum"] == list(UpdatePolicy)
    assert fields["updatePolicy"]["default"] == spec.update_policy
    assert fields["replicas"]["default"] == spec.replicas
    grace = fields["terminationGracePeriodSeconds"]["default"]
    assert grace == spec.termination_grace_seconds
    assert fields["paused"]["default"] == spec.is_paused
    assert fields["storage"]["default"] == {}
    assert fields["storage"]["properties"]["size"]["default"] == spec.volumes[0].size
    storage = fields["storage"]["properties"]
    assert storage["deleteClaim"]["enum"] == list(DeleteClaim)
    assert storage["deleteClaim"]["default"] == spec.delete_claim


def test_changes_that_cannot_be_made_are_refused_by_rules() -> None:
    """operator.md 5: no shrinking, no other storage class, nobody parked and emptied at once."""
    rules = [rule["rule"] for part in nodes(schema()) for rule in rules_of(part)]
    text = "\n".join(rules)
    size = "quantity(self.spec.storage.size).compareTo"
    assert f"{size}(quantity(oldSelf.spec.storage.size)) >= 0" in text
    assert f"{size}(quantity(oldSelf.status.volumeSize)) >= 0" in text
    assert "self.storageClassName == oldSelf.storageClassName" in text
    assert "!(id in self.decommission)" in text


def test_the_schema_is_structural() -> None:
    """Kubernetes refuses a field without a type, and both properties and additionalProperties."""
    for part in nodes(schema()):
        free = part.get("x-kubernetes-preserve-unknown-fields")
        assert "type" in part or free or part.get("x-kubernetes-int-or-string"), part
        assert not ("properties" in part and "additionalProperties" in part)


def test_every_field_of_a_status_is_in_the_schema() -> None:
    """The API server drops what the schema does not name, and then it is written for ever."""
    pods = [pod(0), pod(1, revision={}), pod(2, is_ready=False, stuck="CrashLoopBackOff")]
    seen = observed(
        pods,
        view=cluster(partition("a", [0, 1, 2], [0, 1]), live=[0, 1], fenced=[2]),
        in_flight=InFlight(node_id=2, pod_uid="old", reason="x"),
        live_config={"a": "b"},
    )
    spec = BrokerSpec.from_manifest(broker())
    plan = plan_broker(spec, seen, now=NOW, default_image=IMAGE)
    scale = ScalePlan(replicas=3, emptying=Emptying(node_id=2, left=1, moving=1, blocked="x"))
    now = datetime.fromtimestamp(HandClock().wall_ms() / 1000, UTC)
    status = broker_status(
        spec,
        seen,
        replace(plan, scale=scale),
        before={},
        now=now,
        eviction_patience=timedelta(hours=1),
    )
    assert status["restarting"]["broker"] == 2
    check(status, schema()["properties"]["status"], "status")
    elsewhere = elsewhere_status(spec, seen, before={}, now=now)
    assert (elsewhere["ready"], elsewhere["leaders"]) == ("2/3", "1/1")
    check(elsewhere, schema()["properties"]["status"], "status")


def check(value: Any, part: dict[str, Any], path: str) -> None:
    """Every field of the value has a place in the schema and its type."""
    types: dict[str, Any] = {
        "string": str,
        "integer": int,
        "boolean": bool,
        "object": dict,
        "array": list,
    }
    if value is None:
        return
    assert isinstance(value, types[part["type"]]), path
    if part["type"] == "array":
        for one in value:
            check(one, part["items"], f"{path}[]")
    elif "properties" in part:
        for name, one in value.items():
            assert name in part["properties"], f"{path}.{name}"
            check(one, part["properties"][name], f"{path}.{name}")


def test_a_name_that_cannot_be_that_of_a_service_is_refused() -> None:
    """Services and pods are named after it."""
    rule = schema()["x-kubernetes-validations"][0]
    pattern = re.search(r"matches\('(.*)'\)", rule["rule"])
    assert pattern is not None
    assert re.fullmatch(pattern[1], "demo-1")
    assert not re.fullmatch(pattern[1], "1demo")
    assert not re.fullmatch(pattern[1], "demo.x")


def rules_of(part: dict[str, Any]) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = part.get("x-kubernetes-validations", [])
    return found


def nodes(part: dict[str, Any]) -> Iterator[dict[str, Any]]:
    yield part
    for child in part.get("properties", {}).values():
        yield from nodes(child)
    for name in ("items", "additionalProperties"):
        if isinstance(part.get(name), dict):
            yield from nodes(part[name])


def test_the_crd_folder_and_the_package_hold_the_same_file() -> None:
    """`kubectl apply -f crds/` and an installed wheel must not differ."""
    assert definition("Broker") == yaml.safe_load((ROOT / "crds" / "broker.yaml").read_text())


@pytest.mark.parametrize(
    "bad",
    [
        {"resources": {"requests": {"cpu": "much"}}},
        {"resources": {"limits": {"memory": "1 GB"}}},
        {"podTemplate": {"tolerations": [{"key": 1}]}},
        {"podTemplate": {"tolerations": [{"effect": "Never"}]}},
        {"podTemplate": {"tolerations": [{"tolerationSeconds": "ten"}]}},
    ],
)
def test_what_the_api_server_could_not_parse_in_a_pod_is_refused_at_once(bad: Any) -> None:
    """Row 10 of the findings: it answers 500, and nobody was told for as long as one looked."""
    assert problems(broker(**bad)) != []
    good = {"cpu": "500m", "memory": "1.5Gi", "example.com/device": 2}
    assert problems(broker(resources={"requests": good})) == []
