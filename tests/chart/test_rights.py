"""The operator's roles against what its source does: nothing forbidden, nothing to spare."""

import ast
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from barnabas_operator.handlers import CHILDREN, WATCHED
from barnabas_operator.kubernetes import kinds
from barnabas_operator.kubernetes.kinds import Kind
from tests.chart.rendered_chart import Render

SOURCES = Path(__file__).resolve().parents[2] / "operator" / "barnabas_operator"
VERBS = ("get", "list", "patch", "delete")
# Resources that show what nobody has declared.
CREATED = (kinds.TOPIC, kinds.CONSUMER_GROUP)
# Server-side apply reads, makes and changes; these are what a Broker is rendered to.
APPLIED = (
    kinds.SERVICE_ACCOUNT,
    kinds.ROLE,
    kinds.ROLE_BINDING,
    kinds.SERVICE,
    kinds.CONFIG_MAP,
    kinds.POD_DISRUPTION_BUDGET,
    kinds.STATEFUL_SET,
    # On request of a Topic.
    kinds.SECRET,
    # Of a Broker that is secure.
    kinds.NETWORK_POLICY,
    kinds.INGRESS,
    kinds.TLS_ROUTE,
    kinds.CERTIFICATE,
)
Right = tuple[str, str, str]


def calls() -> Iterator[tuple[str, Kind]]:
    """Verb and kind of every call of a KubernetesApi whose kind is a constant."""
    for path in SOURCES.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if (
                isinstance(node, ast.Call)
                and isinstance(node.func, ast.Attribute)
                and node.func.attr in VERBS
                and node.args
                and isinstance(node.args[0], ast.Name)
                and isinstance(kind := getattr(kinds, node.args[0].id, None), Kind)
            ):
                yield node.func.attr, kind


def needed() -> set[Right]:
    rights: set[Right] = set()
    for verb, kind in calls():
        rights.add((kind.group, kind.plural, verb))
    for kind in (*WATCHED, *CHILDREN):
        rights |= {(kind.group, kind.plural, verb) for verb in ("list", "watch")}
    for kind in WATCHED:
        rights.add((kind.group, f"{kind.plural}/status", "patch"))
    for kind in APPLIED:
        rights |= {(kind.group, kind.plural, verb) for verb in ("get", "create", "patch")}
    rights |= {(kind.group, kind.plural, "create") for kind in CREATED}
    rights |= {("", "events", "create"), ("coordination.k8s.io", "leases", "create")}
    # Groups that nobody declared, where a Broker asks to have them shown.
    rights.add((kinds.CONSUMER_GROUP.group, kinds.CONSUMER_GROUP.plural, "create"))
    return rights


WITH_SECRETS = {"rbac": {"connectionSecrets": True}, "security": {"enabled": True}}


def granted(manifests: dict[tuple[str, str], dict[str, Any]]) -> set[Right]:
    names = ("demo-barnabas-operator-shop", "demo-barnabas-operator-shop-cluster")
    return {
        (group, resource, verb)
        for name in names
        for rule in manifests["ClusterRole", name]["rules"]
        for group in rule["apiGroups"]
        for resource in rule["resources"]
        for verb in rule["verbs"]
    }


def test_the_operator_may_do_all_that_its_source_does(render: Render) -> None:
    """A right that is missing shows only on a real cluster, and only when it is needed."""
    assert len({kind for _, kind in calls()}) > 8
    assert needed() - granted(render(WITH_SECRETS)) == set()


def test_the_operator_may_do_nothing_dangerous_that_it_does_not(render: Render) -> None:
    """Reading a little more does no harm; making, changing and deleting is only what is used."""
    reading = {"get", "list", "watch"}
    spare = {right for right in granted(render(WITH_SECRETS)) - needed() if right[2] not in reading}
    assert spare == {
        # Who may own what blocks a deletion.
        ("barnabas.dev", "brokers/finalizers", "update"),
        ("barnabas.dev", "topics/finalizers", "update"),
        ("barnabas.dev", "users/finalizers", "update"),
        # Granted to the brokers, so it must be the operator's.
        ("coordination.k8s.io", "leases", "update"),
    }


def test_secrets_are_left_alone_unless_somebody_says_otherwise(render: Render) -> None:
    """Who may read any Secret can be much else."""
    manifests = render()
    assert not [right for right in granted(manifests) if right[1] == "secrets"]


def test_brokers_are_granted_nothing_that_the_operator_has_not(render: Render) -> None:
    """The API server refuses a Role with more rights than its maker has."""
    from barnabas_operator.broker_spec import BrokerSpec
    from barnabas_operator.reconcile.broker.children import Rendering
    from barnabas_operator.reconcile.broker.children import render as children

    spec = BrokerSpec(name="demo", namespace="shop")
    made = children(spec, Rendering(image="x", replicas=3))
    (role,) = [one for one in made if one["kind"] == "Role"]
    wanted = {
        (group, resource, verb)
        for rule in role["rules"]
        for group in rule["apiGroups"]
        for resource in rule["resources"]
        for verb in rule["verbs"]
    }
    assert wanted <= granted(render())
