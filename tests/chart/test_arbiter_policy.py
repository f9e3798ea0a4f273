"""The chart's policy that keeps the arbiter's Lease, on a real API server."""

import json
import ssl
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from barnabas_broker.arbiter.arbiter import ArbiterRecord, Leader, Member
from barnabas_broker.arbiter.lease_document import lease_with
from barnabas_protocol.ids import uuid_from_text
from tests.chart.rendered_chart import Render
from tests.support.real_api_server import RealApiServer, hyperkube
from tests.support.waiting import wait_until

POLICY = "demo-barnabas-operator-shop-arbiter"
ADMISSION = "/apis/admissionregistration.k8s.io/v1"
LEASES = "/apis/coordination.k8s.io/v1/namespaces/kept/leases"
NAMESPACES = "/api/v1/namespaces"
pytestmark = pytest.mark.interop
DIRECTORY = uuid_from_text("AAAAAAAAAAAAAAAAAAAAAQ")


@pytest.fixture
def server(tmp_path: Path) -> Iterator[RealApiServer]:
    if hyperkube() is None:
        pytest.skip("the API server is not in the cache; `make e2e` builds it")
    with RealApiServer(tmp_path) as started:
        yield started


def ask(server: RealApiServer, method: str, path: str, body: Any = None) -> tuple[int, str]:
    """The code and text of the API server's answer to its administrator."""
    token = json.loads(server.kubeconfig())["users"][0]["user"]["token"]
    request = urllib.request.Request(
        server.address + path,
        method=method,
        data=None if body is None else json.dumps(body).encode(),
        headers={"Authorization": f"Bearer {token}", "Content-Type": "application/json"},
    )
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    try:
        with urllib.request.urlopen(request, context=context, timeout=30) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()


def lease(name: str, *, is_led: bool = True, **annotations: str) -> dict[str, Any]:
    """What brokers write."""
    record = ArbiterRecord(
        cluster_id="c1",
        controller_epoch=4,
        leader=Leader(0, "broker-0", 9091) if is_led else None,
        members=(Member(0, DIRECTORY),),
        renewed_ms=1_900_000_000_000,
    )
    made = lease_with(record, None, "kept", name)
    made["metadata"]["annotations"].update(annotations)
    return made


def test_the_lease_of_an_arbiter_is_not_deleted_by_accident(
    server: RealApiServer, render: Render
) -> None:
    """Row 9 of the findings: `kubectl delete lease` ended the control plane for good."""
    manifests = render()
    assert ask(server, "POST", NAMESPACES, {"metadata": {"name": "kept"}})[0] == 201
    for kind, plural in (
        ("ValidatingAdmissionPolicy", "validatingadmissionpolicies"),
        ("ValidatingAdmissionPolicyBinding", "validatingadmissionpolicybindings"),
    ):
        code, text = ask(server, "POST", f"{ADMISSION}/{plural}", manifests[kind, POLICY])
        assert code == 201, text
    wait_until(lambda: is_refused(server), 60, lambda: "the Lease goes")
    # Nobody leads for a moment in every roll.
    assert ask(server, "POST", LEASES, lease("resigned", is_led=False))[0] == 201
    assert ask(server, "DELETE", f"{LEASES}/resigned")[0] == 403
    for given in (
        lease("meant", **{"barnabas.dev/delete": "true"}),
        {"metadata": {"name": "another"}, "spec": {"holderIdentity": "somebody"}},
    ):
        assert ask(server, "POST", LEASES, given)[0] == 201
        code, text = ask(server, "DELETE", f"{LEASES}/{given['metadata']['name']}")
        assert code == 200, text
    # What the controller of namespaces does, which does not run here, once one is deleted.
    assert ask(server, "DELETE", f"{NAMESPACES}/kept")[0] == 200
    wait_until(
        lambda: ask(server, "DELETE", f"{LEASES}/demo-arbiter")[0] == 200,
        60,
        lambda: f"the Lease is kept: {ask(server, 'DELETE', f'{LEASES}/demo-arbiter')}",
    )


def is_refused(server: RealApiServer) -> bool:
    """Whether a Lease cannot be deleted; the API server takes a policy up later."""
    ask(server, "POST", LEASES, lease("demo-arbiter"))
    code, text = ask(server, "DELETE", f"{LEASES}/demo-arbiter")
    assert code in (200, 403, 422), text
    return code == 403 and "barnabas.dev/delete=true" in text


def test_the_policy_can_be_left_out(render: Render) -> None:
    """Whoever installs the chart may lack the right, or have a policy of their own."""
    assert not [
        kind
        for kind, _ in render({"operator": {"protectArbiterLease": False}})
        if kind.startswith("ValidatingAdmissionPolicy")
    ]
