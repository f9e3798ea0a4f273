"""The children of a Broker: what brokers make of their configuration, and what restarts whom."""

from dataclasses import replace
from typing import Any

import pytest

from barnabas_broker.config.parse import BrokerConfig, parse_properties
from barnabas_broker.security.broker_principals import BrokerPrincipals
from barnabas_broker.security.principal import Principal
from barnabas_broker.security.principal_mapping import PrincipalMapping
from barnabas_operator.broker_spec import (
    BrokerSpec,
    ExternalListener,
    PodTemplate,
    ServiceTemplate,
    Volume,
    quantity_bytes,
)
from barnabas_operator.kubernetes.objects import BROKER_LABEL, broker_labels
from barnabas_operator.reconcile.broker.child_drift import differences, is_applied, marked
from barnabas_operator.reconcile.broker.children import Rendering, render
from barnabas_operator.reconcile.broker.revision import changes, revision_of
from barnabas_operator.security_spec import NetworkRules, SecurityPhase, SecuritySpec
from barnabas_operator.spec import SpecError

SPEC = BrokerSpec(name="demo", namespace="kafka", uid="u1")
EXTERNAL = ExternalListener(
    type="NodePort", advertised_host="k8s.example.com", node_port_base=31000
)
IMAGE = "barnabas:1"


def rendered(spec: BrokerSpec = SPEC, **given: Any) -> dict[str, dict[str, Any]]:
    """The children by kind and name."""
    rendering = Rendering(**{"image": IMAGE, "replicas": spec.replicas, **given})
    return {f"{one['kind']} {one['metadata']['name']}": one for one in render(spec, rendering)}


def started(spec: BrokerSpec, node_id: int, **given: Any) -> BrokerConfig:
    """The configuration that the broker of a pod reads, as its command line has it."""
    children = rendered(spec, **given)
    pod = children["StatefulSet demo"]["spec"]["template"]["spec"]
    variables = {
        "$(NODE_ID)": str(node_id),
        "$(POD_NAME)": f"demo-{node_id}",
        "$(POD_NAMESPACE)": "kafka",
    }
    command = list(pod["containers"][0]["command"])
    for variable, value in variables.items():
        command = [word.replace(variable, value) for word in command]
    assert command[:3] == ["barnabas", "broker", "--config"]
    file = command[3].removeprefix("/etc/barnabas/")
    properties = parse_properties(children["ConfigMap demo-config"]["data"][file])
    for option, setting in zip(command[4::2], command[5::2], strict=True):
        assert option == "--set"
        key, _, value = setting.partition("=")
        properties[key] = value
    return BrokerConfig.parse(properties)


def test_a_broker_understands_what_the_operator_writes() -> None:
    """style.md 6: operator-rendered config is fed to the broker's own parser."""
    config = started(replace(SPEC, config={"log.retention.ms": "1000"}), 2)
    assert config.node_id == 2
    assert [str(one) for one in config.advertised_listeners] == [
        "PLAINTEXT://demo-broker-2.kafka.svc.cluster.local:9092",
        "REPLICATION://demo-broker-2.kafka.svc.cluster.local:9091",
    ]
    assert config.inter_broker_listener_name == "REPLICATION"
    assert config.arbiter_backend == "kubernetes"
    assert config.arbiter_kubernetes_lease_name == "demo-arbiter"
    assert config.properties["log.retention.ms"] == "1000"
    assert config.properties["default.replication.factor"] == "3"
    assert config.properties["min.insync.replicas"] == "2"
    assert config.properties["barnabas.drain.budget.ms"] == "100000"
    assert config.properties["log.dirs"] == "/var/lib/barnabas/data"


SECURITY = SecuritySpec(
    has_tls=True,
    has_authentication=True,
    has_authorization=True,
    super_users=("User:admin",),
    network=NetworkRules(is_enabled=True, clients=({"podSelector": {}},)),
)
PHASES = tuple(SecurityPhase)


@pytest.mark.parametrize("external", [None, EXTERNAL, replace(EXTERNAL, protocol="SSL")])
@pytest.mark.parametrize("phase", PHASES)
def test_a_broker_understands_every_phase(
    phase: SecurityPhase, external: ExternalListener | None
) -> None:
    """SEC-89: what the operator writes for a phase is what the broker's own parser takes."""
    spec = replace(SPEC, security=SECURITY, phase=phase, external=external)
    config = started(spec, 1)
    named = {one.name: one.security_protocol for one in config.listeners}
    assert ("PLAINTEXT" in named) == (phase < SecurityPhase.SECURE)
    assert named.get("CLIENTS") == ("SASL_SSL" if phase.has_certificates else None)
    by_tls = phase >= SecurityPhase.BROKERS
    assert config.inter_broker_listener_name == ("REPLICATION_SSL" if by_tls else "REPLICATION")
    assert set(named) == {one.name for one in config.advertised_listeners}
    if not phase.has_certificates:
        assert named.get("EXTERNAL", "PLAINTEXT") == "PLAINTEXT"
        return
    tls = config.tls["REPLICATION_SSL"]
    assert (tls.client_auth, tls.truststore_file) == (
        "required",
        "/etc/barnabas-tls/cluster-ca.crt",
    )
    assert tls.certificate_file == "/etc/barnabas-tls/broker-1.crt"
    assert config.admin_http_protocol == ("https" if by_tls else "http")
    clients = config.tls["CERTIFICATES"]
    assert clients.truststore_file == "/etc/barnabas-tls/clients-ca.crt"
    assert config.sasl["CLIENTS"].mechanisms == ("SCRAM-SHA-512", "OAUTHBEARER")
    if phase >= SecurityPhase.AUDIT:
        assert config.super_users == (
            "User:CN=barnabas-operator,O=kafka.demo",
            "User:admin",
        )
        mode = "enforce" if phase is SecurityPhase.SECURE else "audit-only"
        assert config.barnabas_authorizer_mode == mode
    if external is not None:
        # Its one port takes clients of both kinds until there are no plain ones any more.
        assert named["EXTERNAL"] == external.protocol
        unified = () if phase is SecurityPhase.SECURE else ("EXTERNAL",)
        assert config.barnabas_port_unification_listeners == unified


def test_names_of_certificates_become_principals_that_nobody_else_can_have() -> None:
    """SEC-4, SEC-60, SEC-84: a broker's is the whole name, a client's the common name."""
    config = started(replace(SPEC, security=SECURITY, phase=SecurityPhase.SECURE), 1)
    clients = PrincipalMapping(config.tls["CERTIFICATES"].mapping_rules)
    assert clients.name_of("CN=alice") == "alice"
    assert clients.name_of("CN=team-a:alice,O=x") == "team-a:alice"
    brokers = PrincipalMapping(config.tls["REPLICATION_SSL"].mapping_rules)
    assert brokers.name_of("CN=broker-1,O=kafka.demo") == "CN=broker-1,O=kafka.demo"
    assert BrokerPrincipals.parse(config.barnabas_broker_principals).may_speak_for(
        Principal("User", "CN=broker-1,O=kafka.demo"), 1
    )


def test_parts_that_are_off_are_not_set() -> None:
    """SEC-80: TLS alone encrypts, and asks nobody who they are."""
    spec = replace(SPEC, security=SecuritySpec(has_tls=True), phase=SecurityPhase.SECURE)
    config = started(spec, 0)
    named = {one.name: one.security_protocol for one in config.listeners}
    assert named == {"CLIENTS": "SSL", "REPLICATION_SSL": "SSL"}
    assert config.super_users == ()
    assert config.barnabas_broker_principals == "User:CN=broker-{id},O=kafka.demo"


def test_pods_keep_to_the_restricted_profile_in_every_phase() -> None:
    """SEC-88: Pod Security Standards, restricted: users, rights, capabilities, kinds of volumes."""
    for phase in PHASES:
        spec = replace(SPEC, security=SECURITY, phase=phase, external=EXTERNAL)
        pod = rendered(spec)["StatefulSet demo"]["spec"]["template"]["spec"]
        assert pod["securityContext"]["runAsNonRoot"] is True
        assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
        assert not {"hostNetwork", "hostPID", "hostIPC"} & pod.keys()
        for container in pod["containers"]:
            assert container["securityContext"]["allowPrivilegeEscalation"] is False
            assert container["securityContext"]["capabilities"] == {"drop": ["ALL"]}
        for volume in pod["volumes"]:
            assert set(volume) - {"name"} <= {"configMap", "emptyDir", "projected"}


def test_a_policy_lets_in_brokers_the_operator_and_whom_it_names() -> None:
    """SEC-87: clients by their listeners only; the admin port for those that monitor."""
    network = replace(SECURITY.network, monitoring=({"namespaceSelector": {}},))
    security = replace(SECURITY, network=network)
    external = replace(EXTERNAL, peers=({"ipBlock": {"cidr": "192.0.2.0/24"}},))
    spec = replace(SPEC, security=security, phase=SecurityPhase.SECURE, external=external)
    rules = rendered(spec)["NetworkPolicy demo"]["spec"]
    assert rules["podSelector"] == {"matchLabels": {BROKER_LABEL: "demo"}}
    own, release_test, clients, outside, monitoring = rules["ingress"]
    assert "ports" not in own
    assert [one["port"] for one in release_test["ports"]] == [9090]
    labels = {"app.kubernetes.io/name": "barnabas-test"}
    assert release_test["from"] == [{"podSelector": {"matchLabels": labels}}]
    assert [one["port"] for one in clients["ports"]] == [9093, 9097]
    assert clients["from"] == [{"podSelector": {}}]
    assert outside == {
        "ports": [{"port": 9094, "protocol": "TCP"}],
        "from": [{"ipBlock": {"cidr": "192.0.2.0/24"}}],
    }
    assert [one["port"] for one in monitoring["ports"]] == [9644]
    off = replace(security, network=NetworkRules())
    assert "NetworkPolicy demo" not in rendered(replace(spec, security=off))


def test_a_gateway_has_a_host_for_each_broker_and_one_to_begin_with() -> None:
    """SEC-87: TLSRoute by SNI; nobody but the broker decrypts."""
    gateway = ExternalListener(
        type="TLSRoute",
        advertised_host="b{id}.example.com",
        advertised_port=443,
        gateway={"name": "edge", "namespace": "infra"},
        bootstrap_host="kafka.example.com",
        certificate_secret="edge-tls",
    )
    spec = replace(
        SPEC, security=SECURITY, phase=SecurityPhase.SECURE, external=gateway, replicas=2
    )
    children = rendered(spec)
    route = children["TLSRoute demo-external-1"]["spec"]
    assert route["hostnames"] == ["b1.example.com"]
    assert route["parentRefs"] == [{"name": "edge", "namespace": "infra"}]
    assert route["rules"] == [{"backendRefs": [{"name": "demo-external-1", "port": 9094}]}]
    assert children["TLSRoute demo-external-bootstrap"]["spec"]["hostnames"] == [
        "kafka.example.com"
    ]
    assert children["Service demo-external-1"]["spec"]["type"] == "ClusterIP"
    config = started(spec, 1)
    (told,) = [one for one in config.advertised_listeners if one.name == "EXTERNAL"]
    assert (told.host, told.port) == ("b1.example.com", 443)
    assert config.tls["EXTERNAL"].certificate_file == "/etc/barnabas-external-tls/tls.crt"


def test_an_ingress_for_each_broker_passes_tls_on() -> None:
    """SEC-87: its controller is asked not to decrypt, in the words of each that can."""
    routed = ExternalListener(
        type="Ingress",
        advertised_host="b{id}.example.com",
        advertised_port=443,
        bootstrap_host="kafka.example.com",
        ingress_class="haproxy",
        labels={"team": "payments", BROKER_LABEL: "other"},
        annotations={"external-dns/name": "b{id}", "haproxy.org/ssl-passthrough": "false"},
    )
    spec = replace(SPEC, security=SECURITY, phase=SecurityPhase.SECURE, external=routed, replicas=2)
    children = rendered(spec)
    ingress = children["Ingress demo-external-1"]
    backend = {"service": {"name": "demo-external-1", "port": {"number": 9094}}}
    path = {"path": "/", "pathType": "Prefix", "backend": backend}
    assert ingress["spec"] == {
        "ingressClassName": "haproxy",
        "tls": [{"hosts": ["b1.example.com"]}],
        "rules": [{"host": "b1.example.com", "http": {"paths": [path]}}],
    }
    assert ingress["metadata"]["annotations"] == {
        "nginx.ingress.kubernetes.io/ssl-passthrough": "true",
        "haproxy.org/ssl-passthrough": "false",
        "haproxy-ingress.github.io/ssl-passthrough": "true",
        "external-dns/name": "b1",
    }
    assert ingress["metadata"]["labels"] == {"team": "payments", **broker_labels("demo")}
    service = children["Service demo-external-1"]
    assert service["spec"]["type"] == "ClusterIP"
    assert "external-dns/name" not in service["metadata"].get("annotations", {})
    to_begin_with = children["Ingress demo-external-bootstrap"]
    assert to_begin_with["spec"]["rules"][0]["host"] == "kafka.example.com"
    assert "external-dns/name" not in to_begin_with["metadata"]["annotations"]
    unnamed = rendered(replace(spec, external=replace(routed, ingress_class="", bootstrap_host="")))
    assert "ingressClassName" not in unnamed["Ingress demo-external-1"]["spec"]
    assert "Ingress demo-external-bootstrap" not in unnamed


def test_the_external_listener_has_its_certificate_without_log_in_too() -> None:
    """SEC-80, SEC-87: TLS alone is no reason to show another certificate."""
    external = replace(EXTERNAL, certificate_secret="edge-tls")
    tls_alone = replace(SECURITY, has_authentication=False, has_authorization=False)
    spec = replace(SPEC, security=tls_alone, phase=SecurityPhase.SECURE, external=external)
    config = started(spec, 1)
    assert config.tls["EXTERNAL"].certificate_file == "/etc/barnabas-external-tls/tls.crt"


def test_rack_and_external_address_reach_the_broker() -> None:
    """Issue 6: listeners and rack, without a shell in the image and without rights on nodes."""
    spec = replace(SPEC, external=EXTERNAL, topology_key="zone")
    config = started(spec, 1, racks={0: "a", 1: "b c", 2: None})
    assert config.properties["broker.rack"] == "b c"
    assert [str(one) for one in config.advertised_listeners] == [
        "PLAINTEXT://demo-broker-1.kafka.svc.cluster.local:9092",
        "REPLICATION://demo-broker-1.kafka.svc.cluster.local:9091",
        "EXTERNAL://k8s.example.com:31001",
    ]
    assert "broker.rack" not in started(spec, 2, racks={0: "a", 1: "b", 2: None}).properties


def test_a_pod_waits_for_the_file_of_a_rack_that_is_not_known_yet() -> None:
    """The kubelet starts no container before all named files are there."""
    spec = replace(SPEC, topology_key="zone")
    children = rendered(spec, racks={0: "a"})
    assert "broker-1.properties" not in children["ConfigMap demo-config"]["data"]
    volumes = children["StatefulSet demo"]["spec"]["template"]["spec"]["volumes"]
    items = [item["key"] for item in volumes[0]["configMap"]["items"]]
    assert items == [f"broker-{node_id}.properties" for node_id in range(3)]


@pytest.mark.parametrize("value", ["a=b", "  spaces", "C:\\x", "a#b", "ü", "a:b", ""])
def test_any_value_comes_through_the_properties_file(value: str) -> None:
    """Values are the user's: nothing in them may become syntax."""
    data = rendered(replace(SPEC, config={"a.key": value}))["ConfigMap demo-config"]["data"]
    assert parse_properties(data["broker.properties"])["a.key"] == value


def test_pods_are_stopped_as_the_drain_wants_it() -> None:
    """operator.md 4: preStop with half the grace, budget below the grace, liveness that waits."""
    spec = replace(SPEC, termination_grace_seconds=60)
    pod = rendered(spec)["StatefulSet demo"]["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    assert pod["terminationGracePeriodSeconds"] == 60
    hook = container["lifecycle"]["preStop"]["exec"]["command"]
    assert hook == ["barnabas", "drain", "--admin-port", "9644", "--timeout", "30"]
    assert started(spec, 0).properties["barnabas.drain.budget.ms"] == "40000"
    assert container["livenessProbe"]["httpGet"]["path"] == "/live"
    assert container["readinessProbe"]["httpGet"]["path"] == "/ready"
    startup = container["startupProbe"]
    assert startup["periodSeconds"] * startup["failureThreshold"] >= 3600


def test_pods_run_without_rights_that_they_do_not_need() -> None:
    """Issue 6: non-root, read-only root file system; and rights on one Lease."""
    children = rendered()
    pod = children["StatefulSet demo"]["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    assert pod["securityContext"]["runAsNonRoot"] is True
    assert pod["securityContext"]["fsGroup"] == 10001
    assert container["securityContext"]["readOnlyRootFilesystem"] is True
    assert container["securityContext"]["capabilities"] == {"drop": ["ALL"]}
    create, rest = children["Role demo-broker"]["rules"]
    assert create["verbs"] == ["create"]
    assert rest["resourceNames"] == ["demo-arbiter"]


def test_the_objects_have_the_names_and_the_policies_that_others_rely_on() -> None:
    """operator.md 4: Parallel, OnDelete, identity Service with addresses that are not ready."""
    children = rendered(max_unavailable=0)
    assert set(children) == {
        "ServiceAccount demo-broker",
        "Role demo-broker",
        "RoleBinding demo-broker",
        "Service demo-brokers",
        "Service demo-bootstrap",
        *(f"Service demo-broker-{node_id}" for node_id in range(3)),
        "ConfigMap demo-config",
        "PodDisruptionBudget demo",
        "StatefulSet demo",
    }
    stateful_set = children["StatefulSet demo"]["spec"]
    assert stateful_set["podManagementPolicy"] == "Parallel"
    assert stateful_set["updateStrategy"] == {"type": "OnDelete"}
    assert stateful_set["serviceName"] == "demo-brokers"
    assert stateful_set["persistentVolumeClaimRetentionPolicy"]["whenDeleted"] == "Retain"
    assert children["Service demo-brokers"]["spec"]["publishNotReadyAddresses"] is True
    assert "publishNotReadyAddresses" not in children["Service demo-bootstrap"]["spec"]
    assert children["PodDisruptionBudget demo"]["spec"]["maxUnavailable"] == 0
    for child in children.values():
        assert child["metadata"]["ownerReferences"][0]["uid"] == "u1"
        assert child["metadata"]["labels"]["barnabas.dev/broker"] == "demo"


def test_a_broker_is_known_by_an_address_that_outlives_its_pod() -> None:
    """A JVM keeps addresses for 30 s: a quick roll left clients with none that was right."""
    service = rendered()["Service demo-broker-1"]["spec"]
    assert service["type"] == "ClusterIP"
    assert service["selector"]["statefulset.kubernetes.io/pod-name"] == "demo-1"
    assert service["publishNotReadyAddresses"] is True
    assert [port["name"] for port in service["ports"]] == ["kafka", "replication"]
    advertised = started(SPEC, 1).advertised_listeners
    assert {one.host.partition(".")[0] for one in advertised} == {"demo-broker-1"}


def test_each_broker_has_a_service_of_its_own_for_clients_outside() -> None:
    """Issue 6: listeners."""
    children = rendered(replace(SPEC, external=EXTERNAL, replicas=2))
    ports = [
        children[f"Service demo-external-{node_id}"]["spec"]["ports"][0]["nodePort"]
        for node_id in range(2)
    ]
    assert ports == [31000, 31001]


@pytest.mark.parametrize(
    ("change", "reasons"),
    [
        ({}, []),
        ({"replicas": 7}, []),
        ({"config": {"a": "b"}}, []),
        ({"resources": {"limits": {"cpu": "2"}}}, ["resources changed"]),
        ({"termination_grace_seconds": 60}, ["terminationGracePeriodSeconds changed"]),
        ({"external": EXTERNAL}, ["the listeners changed"]),
        ({"topology_key": "zone"}, ["rack.topologyKey changed"]),
        ({"restart": "tuesday"}, ["restart asked for (tuesday)"]),
        ({"pod_template": PodTemplate(labels={"a": "b"})}, []),
        ({"pod_template": PodTemplate(pod={"dnsPolicy": "Default"})}, ["podTemplate changed"]),
        ({"service_template": ServiceTemplate(annotations={"a": "b"})}, []),
    ],
)
def test_only_what_matters_to_a_running_pod_is_a_reason_to_restart(
    change: dict[str, Any], reasons: list[str]
) -> None:
    """operator.md 3.21: hash only what matters, show the reasons."""
    before = revision_of(SPEC, IMAGE)
    after = revision_of(replace(SPEC, **change), IMAGE)
    assert changes(before, after) == reasons
    assert changes(before, revision_of(SPEC, "barnabas:2")) == [
        "image barnabas:1 becomes barnabas:2"
    ]


def test_what_pods_do_not_have_yet_is_no_reason_for_an_upgrade_to_restart_them() -> None:
    """Pods of an operator that knew fewer parts; what is taken back is a reason."""
    older = {part: value for part, value in revision_of(SPEC, IMAGE).items() if part != "pod"}
    assert changes(older, revision_of(SPEC, IMAGE)) == []
    declared = replace(SPEC, pod_template=PodTemplate(pod={"dnsPolicy": "Default"}))
    assert changes(older, revision_of(declared, IMAGE)) == ["podTemplate changed"]
    assert changes(revision_of(declared, IMAGE), revision_of(SPEC, IMAGE)) == [
        "podTemplate changed"
    ]
    external = replace(EXTERNAL, labels={"a": "b"}, annotations={"c": "d"})
    assert (
        changes(
            revision_of(replace(SPEC, external=EXTERNAL), IMAGE),
            revision_of(replace(SPEC, external=external), IMAGE),
        )
        == []
    )


def test_what_a_pod_template_adds_is_merged_and_what_the_operator_needs_stays() -> None:
    """Issue 17: sidecars, volumes, environment, security context."""
    added = {
        "containers": [
            {
                "name": "broker",
                "env": [{"name": "TZ", "value": "UTC"}],
                "volumeMounts": [{"name": "ca", "mountPath": "/etc/ca"}],
                "securityContext": {"runAsUser": 5},
            },
            {"name": "proxy", "image": "proxy:1"},
        ],
        "volumes": [{"name": "ca", "configMap": {"name": "ca"}}],
        "securityContext": {"runAsUser": None},
    }
    plain = rendered()["StatefulSet demo"]["spec"]["template"]["spec"]
    spec = replace(SPEC, pod_template=PodTemplate(pod=added))
    pod = rendered(spec)["StatefulSet demo"]["spec"]["template"]["spec"]
    broker, proxy = pod["containers"]
    (own,) = plain["containers"]
    assert proxy == {"name": "proxy", "image": "proxy:1"}
    assert broker["env"] == [*own["env"], {"name": "TZ", "value": "UTC"}]
    assert broker["volumeMounts"] == [
        *own["volumeMounts"],
        {"name": "ca", "mountPath": "/etc/ca"},
    ]
    assert broker["securityContext"] == {**own["securityContext"], "runAsUser": 5}
    for field in own.keys() - {"env", "volumeMounts", "securityContext"}:
        assert broker[field] == own[field]
    assert [volume["name"] for volume in pod["volumes"]] == ["config", "tmp", "ca"]
    assert "runAsUser" not in pod["securityContext"]
    assert pod["securityContext"]["runAsNonRoot"]


def test_services_have_the_labels_and_annotations_that_are_declared() -> None:
    """Issue 17: load balancers, meshes and DNS are told what to do by them."""
    external = replace(EXTERNAL, labels={"zone": "out"}, annotations={"host": "b{id}.example.com"})
    template = ServiceTemplate(
        labels={"team": "a", BROKER_LABEL: "no"}, annotations={"mesh": "off"}
    )
    children = rendered(replace(SPEC, external=external, service_template=template))
    services = [child for child in children.values() if child["kind"] == "Service"]
    assert len(services) == 2 + 2 * SPEC.replicas
    for service in services:
        metadata = service["metadata"]
        assert metadata["labels"]["team"] == "a"
        assert metadata["labels"][BROKER_LABEL] == "demo"
        assert metadata["annotations"]["mesh"] == "off"
    outside = children["Service demo-external-2"]["metadata"]
    assert outside["labels"]["zone"] == "out"
    assert outside["annotations"]["host"] == "b2.example.com"
    assert "host" not in children["Service demo-bootstrap"]["metadata"]["annotations"]
    for plain in rendered().values():
        assert "annotations" not in plain["metadata"]


def test_what_the_api_server_adds_is_no_difference_and_what_it_rewrites_is_tolerated() -> None:
    """operator.md 3.9: no hot loop from defaults or from values in another spelling."""
    intent = marked({"metadata": {"name": "x"}, "spec": {"host": "A", "list": [{"a": 1}]}})
    found = {
        **intent,
        "status": {},
        "spec": {"host": "a", "list": [{"a": 1, "default": 2}], "more": 3},
    }
    rewritten = differences(intent, found)
    assert {path for path, _ in rewritten} == {".spec.host"}
    assert is_applied(intent, found, rewritten)
    assert not is_applied(intent, found, frozenset())
    assert not is_applied(intent, None, frozenset())
    changed = {**found, "spec": {**found["spec"], "list": []}}
    assert not is_applied(intent, changed, rewritten)


@pytest.mark.parametrize(
    ("one", "other", "is_same"),
    [
        ("1000m", "1", True),
        (1, "1", True),
        ("1.5Ti", "1536Gi", True),
        ("1G", "1Gi", False),
        ("1", "2", False),
        ("a", "b", False),
        (True, "1", False),
    ],
)
def test_a_quantity_in_another_spelling_is_the_same(one: Any, other: Any, is_same: bool) -> None:
    """The API server writes quantities in its own way; a new operator must not write for that."""
    assert (differences({"a": one}, {"a": other}) == set()) is is_same


@pytest.mark.parametrize(
    ("text", "size"),
    [("1Ki", 1024), ("10Gi", 10 * 2**30), ("0.5k", 500), ("7", 7), ("1.5Mi", 1572864)],
)
def test_sizes_are_read_as_kubernetes_reads_them(text: str, size: int) -> None:
    """A claim of 10G and one of 10Gi differ."""
    assert quantity_bytes(text) == size


@pytest.mark.parametrize(
    "config",
    [
        {"num.io.threads=8\nlog.dirs": "/tmp"},
        {"log.dirs=/tmp #": "1"},
        {"log.dirs /tmp": "1"},
        {"log\\u002edirs": "/tmp"},
        {"num.io.threads": "8\u2028log.dirs=/tmp"},
        {"num.io.threads": "8\x0clog.dirs=/tmp"},
        {"num.io.threads": "8\n"},
    ],
)
def test_a_setting_is_one_line_of_the_file_whatever_is_declared(config: dict[str, str]) -> None:
    """By a line break, or an escape, in a name the settings that are reserved could be given."""
    manifest = {"metadata": {"name": "demo"}, "spec": {"config": config}}
    with pytest.raises(SpecError, match=r"no name of a setting|a value is one line"):
        BrokerSpec.from_manifest(manifest)


@pytest.mark.parametrize(
    "key", ["barnabas.port.unification.listeners", "barnabas.other.broker.listeners"]
)
def test_who_is_let_in_by_a_listener_is_the_operator_s(key: str) -> None:
    """SEC-89: phases set these; one of a Broker's own would hold when it is called secure."""
    manifest = {"metadata": {"name": "demo"}, "spec": {"config": {key: "EXTERNAL"}}}
    with pytest.raises(SpecError, match="the operator decides this setting itself"):
        BrokerSpec.from_manifest(manifest)


@pytest.mark.parametrize(
    "template",
    [
        {"annotations": {"barnabas.dev/restart": "2026-11-24"}},
        {"annotations": {"barnabas.dev/drain-requested": "x"}},
        {"labels": {"apps.kubernetes.io/pod-index": "0"}},
        {"labels": {"statefulset.kubernetes.io/pod-name": "demo-0"}},
        {"labels": {"controller-revision-hash": "x"}},
    ],
)
def test_marks_by_which_pods_are_known_cannot_be_declared(template: dict[str, Any]) -> None:
    """A request for a restart on every new pod restarted brokers for ever."""
    manifest = {"metadata": {"name": "demo"}, "spec": {"podTemplate": template}}
    with pytest.raises(SpecError, match="put it on pods themselves"):
        BrokerSpec.from_manifest(manifest)


@pytest.mark.parametrize("key", ["node.id", "listeners", "arbiter.backend", "log.dirs"])
def test_settings_that_the_operator_decides_cannot_be_declared(key: str) -> None:
    """They would take the broker away from its volume, its address or its cluster."""
    manifest = {
        "metadata": {"name": "demo"},
        "spec": {"storage": {"size": "1Gi"}, "config": {key: "1"}},
    }
    with pytest.raises(SpecError, match="the operator decides"):
        BrokerSpec.from_manifest(manifest)


def test_a_sidecar_that_somebody_has_added_hides_no_later_change() -> None:
    """Row 13 of the findings: the whole list was tolerated for ever, so another image stayed."""
    broker = {"name": "broker", "image": "good:1"}
    intent = marked({"metadata": {"name": "a"}, "spec": {"containers": [broker]}})
    with_sidecar = {**intent, "spec": {"containers": [{"name": "proxy"}, broker]}}
    assert is_applied(intent, with_sidecar, frozenset())
    other = [{"name": "proxy"}, {**broker, "image": "other:1"}]
    assert not is_applied(intent, {**intent, "spec": {"containers": other}}, frozenset())
    assert not is_applied(intent, {**intent, "spec": {"containers": []}}, frozenset())


def test_a_value_that_the_api_server_rewrites_is_tolerated_and_no_other_one() -> None:
    """Else nobody would see that it was changed once more."""
    intent = marked({"metadata": {"name": "a"}, "spec": {"host": "A"}})
    tolerated = differences(intent, {**intent, "spec": {"host": "a"}})
    assert is_applied(intent, {**intent, "spec": {"host": "a"}}, tolerated)
    assert not is_applied(intent, {**intent, "spec": {"host": "b"}}, tolerated)


def test_a_broker_with_several_volumes_understands_where_its_logs_are() -> None:
    """With racks, too, where each broker has a file of its own."""
    volumes = (Volume(), Volume(name="more", size="20Gi"))
    spec = replace(SPEC, volumes=volumes, metadata_volume="more")
    for one in (spec, replace(spec, topology_key="zone")):
        config = started(one, 1, racks={1: "a"})
        assert config.log_dirs == (
            "/var/lib/barnabas-volumes/more/data",
            "/var/lib/barnabas/data",
        )
        assert config.metadata_log_dir == "/var/lib/barnabas-volumes/more/data"
