"""The chart's eviction webhook: what the API server is told, and the certificate."""

import base64
import shutil
import ssl
import subprocess
from pathlib import Path
from typing import Any

import yaml

from barnabas_operator.eviction.serving_certificate import ServingCertificate
from barnabas_operator.eviction.webhook_server import PATH
from barnabas_operator.settings import OperatorSettings
from tests.chart.rendered_chart import CHART, KUBE_VERSION, Render
from tests.support.admission import webhook_rules
from tests.support.cache import run

SECRET = ("Secret", "demo-barnabas-operator-webhook")
CONFIGURATION = ("ValidatingWebhookConfiguration", "demo-barnabas-operator-shop")
DEPLOYMENT = ("Deployment", "demo-barnabas-operator")
SERVICE = ("Service", "demo-barnabas-operator")
# What Helm finds of an earlier release, where there is a cluster to ask.
_LOOKUP = 'lookup "v1" "Secret" .Release.Namespace $name'


def webhook_of(manifests: dict[tuple[str, str], dict[str, Any]]) -> dict[str, Any]:
    (webhook,) = manifests[CONFIGURATION]["webhooks"]
    return dict(webhook)


def text(encoded: str) -> str:
    return base64.b64decode(encoded).decode()


def test_what_is_asked_about_is_what_was_tried_on_an_api_server(render: Render) -> None:
    """The tests of the operator register the same rules, and evict."""
    webhook = webhook_of(render())
    del webhook["clientConfig"]
    assert webhook == webhook_rules()


def test_only_watched_namespaces_are_asked_about(render: Render) -> None:
    """Elsewhere the operator may not even read pods."""
    webhook = webhook_of(render({"operator": {"watchNamespaces": ["shop", "bank"]}}))
    (term,) = webhook["namespaceSelector"]["matchExpressions"]
    assert (term["key"], term["operator"], term["values"]) == (
        "kubernetes.io/metadata.name",
        "In",
        ["shop", "bank"],
    )


def test_the_way_to_the_operator_fits_together(render: Render) -> None:
    """Service, port, path, environment and volume are five places that have to agree."""
    manifests = render({"operator": {"evictionWebhook": {"patienceSeconds": 600}}})
    service = webhook_of(manifests)["clientConfig"]["service"]
    assert (service["name"], service["namespace"]) == (SERVICE[1], "shop")
    assert service["path"] == PATH
    ports = {one["port"]: one["targetPort"] for one in manifests[SERVICE]["spec"]["ports"]}
    assert ports[service["port"]] == "webhook"
    pod = manifests[DEPLOYMENT]["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    environment = {one["name"]: one.get("value", "") for one in container["env"]}
    settings = OperatorSettings.from_environment(environment)
    assert settings.eviction_patience_seconds == 600
    (port,) = [one for one in container["ports"] if one["name"] == "webhook"]
    assert port["containerPort"] == settings.webhook_port
    (mount,) = [one for one in container["volumeMounts"] if one["name"] == "webhook"]
    assert mount["mountPath"] == settings.webhook_certificates
    (volume,) = [one for one in pod["volumes"] if one["name"] == "webhook"]
    assert volume["secret"] == {"secretName": SECRET[1], "optional": True}


def test_the_certificate_is_what_the_api_server_and_the_operator_need(
    render: Render, tmp_path: Path
) -> None:
    """The operator can serve it, and it is for the Service's name by the bundle's authority."""
    manifests = render()
    data = manifests[SECRET]["data"]
    for name, encoded in data.items():
        (tmp_path / name).write_text(text(encoded))
    certificate = ServingCertificate(tmp_path)
    assert certificate.refresh()
    assert certificate.expires_seconds > 0
    bundle = text(webhook_of(manifests)["clientConfig"]["caBundle"])
    assert bundle == text(data["ca.crt"])
    context = ssl.create_default_context(cadata=bundle)
    assert len(context.get_ca_certs()) == 1
    host = "demo-barnabas-operator.shop.svc"
    verify = ["openssl", "verify", "-verify_hostname", host]
    verify += ["-CAfile", str(tmp_path / "ca.crt"), str(tmp_path / "tls.crt")]
    assert subprocess.run(verify, check=False, capture_output=True).returncode == 0


def upgraded(helm: Path, folder: Path, found: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """What an upgrade of a release with this Secret makes, by kind."""
    chart = folder / "barnabas"
    shutil.copytree(CHART, chart)
    file = chart / "templates" / "eviction-webhook.yaml"
    source = file.read_text()
    assert source.count(_LOOKUP) == 1
    file.write_text(source.replace(_LOOKUP, '.Files.Get "found.yaml" | fromYaml'))
    (chart / "found.yaml").write_text(yaml.safe_dump(found))
    shown = ("--show-only", "templates/eviction-webhook.yaml", *KUBE_VERSION)
    told = run([helm, "template", "demo", chart, "--namespace", "shop", *shown])
    return {one["kind"]: one for one in yaml.safe_load_all(told)}


def test_an_upgrade_keeps_the_certificate(helm: Path, render: Render, tmp_path: Path) -> None:
    """Otherwise each upgrade would leave the API server and the pods apart for a minute."""
    before = render()[SECRET]
    after = upgraded(helm, tmp_path, before)
    assert after["Secret"]["data"] == before["data"]
    assert after["Secret"]["metadata"]["annotations"] == before["metadata"]["annotations"]
    (webhook,) = after["ValidatingWebhookConfiguration"]["webhooks"]
    assert webhook["clientConfig"]["caBundle"] == before["data"]["ca.crt"]


def test_an_old_certificate_is_made_anew_and_both_authorities_are_trusted(
    helm: Path, render: Render, tmp_path: Path
) -> None:
    """operator.md 3.24: trust, then replace: pods serve the old one until they have the new one."""
    before = render()[SECRET]
    years = {"barnabas.dev/certificate-made": "1500000000"}
    old = {**before, "metadata": {**before["metadata"], "annotations": years}}
    after = upgraded(helm, tmp_path, old)
    assert after["Secret"]["data"]["tls.crt"] != before["data"]["tls.crt"]
    assert after["Secret"]["metadata"]["annotations"] != years
    (webhook,) = after["ValidatingWebhookConfiguration"]["webhooks"]
    bundle = text(webhook["clientConfig"]["caBundle"])
    new, former = text(after["Secret"]["data"]["ca.crt"]), text(before["data"]["ca.crt"])
    assert bundle == new + former
    assert len(ssl.create_default_context(cadata=bundle).get_ca_certs()) == 2


def test_a_secret_that_lost_a_part_is_made_anew(helm: Path, render: Render, tmp_path: Path) -> None:
    """Somebody may have emptied it; an upgrade must not fail for that."""
    before = render()[SECRET]
    found = {**before, "data": {"tls.crt": before["data"]["tls.crt"]}}
    after = upgraded(helm, tmp_path, found)
    assert sorted(after["Secret"]["data"]) == ["ca.crt", "tls.crt", "tls.key"]


def test_certificates_of_ones_own_are_taken(render: Render) -> None:
    """For tools that render without a cluster, and for cert-manager."""
    annotations = {"cert-manager.io/inject-ca-from": "shop/webhook"}
    given = {"existingSecret": "mine", "caBundle": "PEM", "annotations": annotations}
    manifests = render({"operator": {"evictionWebhook": given}})
    assert SECRET not in manifests
    pod = manifests[DEPLOYMENT]["spec"]["template"]["spec"]
    (volume,) = [one for one in pod["volumes"] if one["name"] == "webhook"]
    assert volume["secret"]["secretName"] == "mine"
    assert text(webhook_of(manifests)["clientConfig"]["caBundle"]) == "PEM"
    assert manifests[CONFIGURATION]["metadata"]["annotations"] == annotations
    injected = render({"operator": {"evictionWebhook": {"existingSecret": "mine"}}})
    assert "caBundle" not in webhook_of(injected)["clientConfig"]
