"""The commands of `kubectl` that plans and rows show: run by the real one (CON-102).

Those that pages make: `tests/console/browser/test_copied_commands.py`.
"""

from pathlib import Path
from typing import Any

from barnabas_console.api.kubernetes import rights_hint
from barnabas_console.kubernetes.api_reader import GROUP, KubernetesError
from barnabas_console.kubernetes.resource_rows import broker_row
from barnabas_console.plans.change import Draft
from barnabas_console.plans.declared import declaring, kept
from barnabas_console.plans.topic_changes import ApplyTopic, RemoveTopic
from barnabas_operator.spec import APPROVE_ANNOTATION
from tests.support.kubectl import needs_kubectl, run_kubectl
from tests.support.listed_resources import lists, resource, serving

pytestmark = needs_kubectl
TOPICS = f"{GROUP}/namespaces/shop/topics"
DRAFT = Draft(title="t", rows=(), observed=None)


def test_the_command_that_approves_restarts_does(tmp_path: Path) -> None:
    """CON-122: afterwards there is nothing left to approve."""
    demo = resource("Broker", "demo")
    demo["spec"] = {"updatePolicy": "OnApproval"}
    demo["status"]["plan"] = {"hash": "9f3c", "restarts": [{"broker": 2, "reasons": ["image"]}]}
    pages = lists()
    pages[f"{GROUP}/namespaces/shop/brokers"] = [[demo]]
    command = broker_row(demo)["approve_command"]
    with serving(pages) as address:
        run_kubectl(command, address, tmp_path)
    assert demo["metadata"]["annotations"] == {APPROVE_ANNOTATION: "9f3c"}
    assert broker_row(demo)["approve_command"] is None


def declared() -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """A topic of an own name, in a list of topics."""
    orders = resource("Topic", "orders")
    orders["apiVersion"] = GROUP.removeprefix("/apis/")
    orders["spec"] = {"brokerRef": {"name": "demo"}, "topicName": "-orders", "partitions": 1}
    return orders, [orders]


def test_the_command_that_changes_a_declared_topic_does(tmp_path: Path) -> None:
    """CON-120: text with quotes reaches the resource as it is."""
    orders, page = declared()
    config = {"retention.ms": "7d", "x": 'it\'s "$(x)"'}
    change = ApplyTopic(
        topic="-orders", is_new=False, bootstrap="b", partitions=3, replicas=2, config=config
    )
    found = declaring("-orders", page)
    assert found is not None
    (command,) = kept(DRAFT, change, found).commands
    with serving({TOPICS: [page]}) as address:
        run_kubectl(command, address, tmp_path)
    assert orders["spec"]["partitions"] == 3
    assert orders["spec"]["replicas"] == 2
    assert orders["spec"]["config"] == config


def test_the_command_that_deletes_a_declared_topic_does(tmp_path: Path) -> None:
    """CON-120."""
    _, page = declared()
    found = declaring("-orders", page)
    assert found is not None
    change = RemoveTopic(topic="-orders", bootstrap="b")
    (command,) = kept(DRAFT, change, found).commands
    with serving({TOPICS: [page]}) as address:
        run_kubectl(f"{command} --wait=false", address, tmp_path)
    assert page == []


def test_the_command_that_tells_whether_the_account_may_does(tmp_path: Path) -> None:
    """CON-132: of a namespace, and of all."""
    with serving(lists()) as address:
        for namespace in ("shop", None):
            hint = rights_hint(KubernetesError("refused", 403), namespace)
            command = hint[hint.index("kubectl") :]
            assert run_kubectl(command, address, tmp_path).strip() == "yes"
    assert rights_hint(KubernetesError("away", 0), None) == ""
