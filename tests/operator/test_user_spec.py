"""What a User manifest means, and which ones are refused."""

from datetime import timedelta
from typing import Any

import pytest

from barnabas_client.admin.values.acls import AclBinding
from barnabas_operator.conditions import ready
from barnabas_operator.crd import definition, problems
from barnabas_operator.reconcile.user.user_status import UserFacts, user_status
from barnabas_operator.spec import SpecError
from barnabas_operator.user_spec import (
    Authentication,
    Rotation,
    UserDriftPolicy,
    UserSpec,
    former_name_of,
    principal_name_of,
)
from barnabas_protocol.acl import AclOperation, AclPermission, AclResourceType, PatternType
from tests.operator.reconcile.broker.views import NOW
from tests.operator.schema_nodes import nodes
from tests.operator.user_manifests import COMPLETE, rights, user


def schema() -> dict[str, Any]:
    (version,) = definition("User")["spec"]["versions"]
    loaded: dict[str, Any] = version["schema"]["openAPIV3Schema"]
    return loaded


def test_a_complete_manifest_is_accepted_and_means_what_it_says() -> None:
    """SEC-84: authentication, rights, quotas, Secret, drift policy."""
    assert problems(COMPLETE) == []
    spec = UserSpec.from_manifest(COMPLETE)
    assert (spec.name, spec.principal) == ("Billing_2", "User:Billing_2")
    assert spec.rotation == Rotation(every=timedelta(days=30), overlap=timedelta(hours=12))
    read, describe, deny, idempotent = sorted(
        spec.rights, key=lambda one: (one.resource_type, one.resource_name, one.operation)
    )
    assert read == AclBinding(
        resource_type=AclResourceType.TOPIC,
        resource_name="orders.",
        pattern_type=PatternType.PREFIXED,
        principal="User:Billing_2",
        operation=AclOperation.READ,
    )
    assert describe.operation is AclOperation.DESCRIBE
    assert (deny.permission, deny.host) == (AclPermission.DENY, "10.0.0.0/8")
    assert (idempotent.resource_type, idempotent.resource_name) == (
        AclResourceType.CLUSTER,
        "kafka-cluster",
    )
    assert dict(spec.quotas) == {
        "producer_byte_rate": 1048576.0,
        "consumer_byte_rate": 2097152.0,
        "request_percentage": 50.0,
        "controller_mutation_rate": 10.0,
    }
    assert (spec.secret, spec.mount_path) == ("billing-kafka", "/kafka")
    assert spec.drift_policy is UserDriftPolicy.WARN
    assert spec.is_paused


def test_what_is_left_out_has_its_default() -> None:
    """SEC-84: driftPolicy is Revert by default; the Secret has the User's name."""
    spec = UserSpec.from_manifest(user())
    assert spec == UserSpec(
        resource="kafka/alice",
        namespace="kafka",
        name="alice",
        authentication=Authentication.NONE,
        age=("", 0, "kafka/alice"),
        broker="demo",
        broker_namespace="kafka",
        secret="alice",
    )


def test_names_of_users_can_be_nobody_elses() -> None:
    """SEC-84, SEC-86: another namespace's User has it in its name; a ServiceAccount its own."""
    assert UserSpec.from_manifest(user(namespace="shop")).name == "shop:alice"
    account = {"type": "serviceAccount", "serviceAccount": {"name": "app"}}
    assert (
        UserSpec.from_manifest(user(namespace="shop", auth=account)).principal
        == "User:system:serviceaccount:shop:app"
    )
    other = {"type": "serviceAccount", "serviceAccount": {"name": "app", "namespace": "shop"}}
    assert principal_name_of(user(auth=other)) == "system:serviceaccount:shop:app"
    with pytest.raises(SpecError, match="names ServiceAccounts of its own only"):
        UserSpec.from_manifest(user(namespace="evil", auth=other))
    assert principal_name_of(user(namespace="evil", auth=other)) == "alice"


@pytest.mark.parametrize(
    ("namespace", "noted", "expected"),
    [
        ("kafka", "User:alice", ""),
        ("kafka", "User:former", "former"),
        ("kafka", "", ""),
        ("shop", "User:shop:alice", ""),
        ("shop", "User:shop:former", "shop:former"),
        ("shop", "User:system:serviceaccount:shop:a", "system:serviceaccount:shop:a"),
        # Whoever may write statuses in `shop` takes nothing from others by it.
        ("shop", "User:former", ""),
        ("shop", "User:system:serviceaccount:kafka:a", ""),
    ],
)
def test_whom_a_user_meant_before_is_one_that_it_can_have_meant(
    namespace: str, noted: str, expected: str
) -> None:
    """SEC-86: its deletion takes that one's rights away."""
    manifest = {**user("alice", namespace), "status": {"principal": noted}}
    assert former_name_of(manifest) == expected


@pytest.mark.parametrize(
    "name", ["CN=broker-0,O=kafka.demo", "*", "ANONYMOUS", "a:b", "a b", "User:alice", "-a", ""]
)
def test_a_user_cannot_have_the_name_of_a_broker_or_of_everybody(name: str) -> None:
    """SEC-84: the schema refuses it, and so does the spec by itself."""
    manifest = user(userName=name)
    rule = schema()["properties"]["spec"]["properties"]["userName"]
    (validation,) = rule["x-kubernetes-validations"]
    assert problems(manifest) or name in validation["rule"]
    if name:
        with pytest.raises(SpecError, match="cannot be a user's name"):
            UserSpec.from_manifest(manifest)


@pytest.mark.parametrize(
    ("manifest", "expected"),
    [
        (
            user(auth="scram-sha-256"),
            "spec.authentication.type: 'scram-sha-256' is not 'tls' or 'scram-sha-512' or"
            " 'serviceAccount' or 'none', did you mean 'scram-sha-512'?",
        ),
        (
            user(authorization=rights("a", operation="Raed")),
            "spec.authorization.acls.0.operations.0: 'Raed' is not",
        ),
        (user(quota={}), "spec.quota: unknown field, did you mean 'quotas'?"),
        (
            user(auth={"type": "scram-sha-512", "rotation": {"every": "30"}}),
            "spec.authentication.rotation.every: '30' does not have the form",
        ),
        (user(quotas={"producerByteRate": 0}), "spec.quotas.producerByteRate: must be at least 1"),
    ],
)
def test_each_mistake_is_told_with_its_field(manifest: dict[str, Any], expected: str) -> None:
    """Manifests are checked by the schema that Kubernetes checks them by."""
    (problem,) = problems(manifest)
    assert str(problem).startswith(expected)


@pytest.mark.parametrize(
    ("manifest", "expected"),
    [
        (user(auth={"type": "serviceAccount"}), "goes with type serviceAccount"),
        (user(auth={"type": "tls", "serviceAccount": {"name": "a"}}), "goes with type service"),
        (user(auth={"type": "tls", "passwordSecretRef": {"name": "p"}}), "goes with type scram"),
        (user(auth={"type": "tls", "rotation": {"every": "1d"}}), "goes with type scram"),
        (
            user(auth={"type": "scram-sha-512", "rotation": {"every": "24h"}}),
            "has to be shorter than every",
        ),
        (user(authorization=rights("*")), "all names with patternType literal"),
        (user(authorization=rights("a", host="10.0.0.0/99")), "is no address and no CIDR"),
    ],
)
def test_what_passes_the_schema_and_makes_no_sense_is_refused(
    manifest: dict[str, Any], expected: str
) -> None:
    """SEC-84: rules in CEL hold without an API server, too."""
    with pytest.raises(SpecError, match=expected):
        UserSpec.from_manifest(manifest)


def test_the_crd_names_what_the_reference_asks_for() -> None:
    """SEC-84: short name, columns."""
    crd = definition("User")
    names = crd["spec"]["names"]
    assert crd["metadata"]["name"] == "users.barnabas.dev"
    assert (names["shortNames"], names["categories"]) == (["bu"], ["barnabas"])
    (version,) = crd["spec"]["versions"]
    assert version["subresources"] == {"status": {}}
    columns = " ".join(column["name"].upper() for column in version["additionalPrinterColumns"])
    assert columns == "BROKER PRINCIPAL AUTH ACLS EXPIRES READY AGE"
    for column in version["additionalPrinterColumns"]:
        path = column["jsonPath"].removeprefix(".").split("[")[0].split(".")
        place = schema()
        for name in path if path[0] != "metadata" else ():
            place = place["properties"][name]


def test_every_field_is_described_and_typed() -> None:
    """`kubectl explain user.spec` tells everything."""
    for part in nodes(schema()["properties"]["spec"]):
        assert "type" in part
        assert not ("properties" in part and "additionalProperties" in part)
        for name, field in part.get("properties", {}).items():
            assert field.get("description"), name
    for name, field in schema()["properties"]["status"]["properties"].items():
        assert field.get("description"), name


def test_choices_are_those_of_the_spec_and_the_status_has_the_fields_that_are_written() -> None:
    """The API server drops what the schema does not know."""
    fields = schema()["properties"]["spec"]["properties"]
    assert fields["authentication"]["properties"]["type"]["enum"] == list(Authentication)
    assert fields["driftPolicy"]["enum"] == list(UserDriftPolicy)
    spec = UserSpec.from_manifest(user())
    status = user_status(spec, UserFacts(), ready("Applied"), generation=1, before={}, now=NOW)
    assert set(status) <= set(schema()["properties"]["status"]["properties"])
