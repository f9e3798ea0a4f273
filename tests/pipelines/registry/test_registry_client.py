"""The client against a real HTTP server: references, credentials, TLS, a registry that is away."""

import json
import ssl
from pathlib import Path

import pytest
from confluent_kafka.schema_registry import SchemaReference

from barnabas_pipelines.errors import RegistryError
from barnabas_pipelines.registry.client import RegistryClient, SchemaType, UnknownSchemaError
from barnabas_pipelines.registry.settings import RegistrySettings
from tests.pipelines.registry.decoded import QUICKLY
from tests.support.registry_serializers import Serializers, avro_record
from tests.support.schema_registry import SchemaRegistry
from tests.support.tls_files import TlsFiles

ORDER = json.dumps(avro_record("Order", id="int"))


def client_of(registry: SchemaRegistry, url: str | None = None, **options: str) -> RegistryClient:
    named = {name.replace("_", "."): value for name, value in options.items()}
    client = RegistryClient(RegistrySettings.of(url or registry.url, {**QUICKLY, **named}))
    registry.on_exit(client.close)
    return client


def test_a_schema_is_found_by_subject_and_by_id(registry: SchemaRegistry) -> None:
    serializers = Serializers(registry, "orders")
    first = serializers.register("orders-value", ORDER, "AVRO")
    second = serializers.register("orders-value", json.dumps(avro_record("Order", a="int")), "AVRO")
    client = client_of(registry)
    assert client.by_subject("orders-value").schema_id == second
    assert client.by_subject("orders-value", "1").schema_id == first
    found = client.by_id(first)
    assert (found.type, found.text) == (SchemaType.AVRO, ORDER)


def test_references_come_each_once_and_before_what_refers_to_them(registry: SchemaRegistry) -> None:
    """A diamond: the order refers to buyer and seller, both to an address."""
    serializers = Serializers(registry, "orders")
    address = SchemaReference("shop.Address", "address", 1)
    serializers.register("address", json.dumps(avro_record("Address", street="string")), "AVRO")
    for name in ("Buyer", "Seller"):
        text = json.dumps(avro_record(name, at="shop.Address"))
        serializers.register(name.lower(), text, "AVRO", [address])
    both = [SchemaReference(f"shop.{name}", name.lower(), 1) for name in ("Buyer", "Seller")]
    order = json.dumps(avro_record("Order", buyer="shop.Buyer", seller="shop.Seller"))
    serializers.register("orders-value", order, "AVRO", both)
    found = client_of(registry).by_subject("orders-value")
    assert [name for name, _ in found.references] == ["shop.Address", "shop.Buyer", "shop.Seller"]
    assert registry.asked_for("/subjects/address/versions/1") == 1


def test_what_the_registry_does_not_know_is_told_apart_from_a_registry_that_fails(
    registry: SchemaRegistry,
) -> None:
    client = client_of(registry)
    for ask in (
        lambda: client.by_id(7),
        lambda: client.by_subject("nobody"),
        lambda: client.by_subject("nobody", "3"),
    ):
        with pytest.raises(UnknownSchemaError):
            ask()
    # Not a registry at all, such as a proxy that does not know the path.
    with pytest.raises(RegistryError, match="cannot be used"):
        client_of(registry, f"{registry.url}/elsewhere").by_id(7)


def test_a_failure_that_passes_is_waited_out(registry: SchemaRegistry) -> None:
    Serializers(registry, "orders").register("orders-value", ORDER, "AVRO")
    registry.failures_left = 2
    client = client_of(registry, max_retries="2")
    assert client.by_subject("orders-value").version == 1


def test_a_registry_that_stays_away_is_an_error_after_so_many_tries(
    registry: SchemaRegistry,
) -> None:
    registry.failures_left = 100
    with pytest.raises(RegistryError, match=r"127.0.0.1:\d+ cannot be used: no leader"):
        client_of(registry, max_retries="2").by_id(1)
    assert len(registry.requests) == 3
    url = registry.url
    registry.stop()
    try:
        with pytest.raises(RegistryError, match=r"cannot be used: .*[Rr]efused"):
            client_of(registry, url).by_id(1)
    finally:
        registry.start()


def test_the_second_url_is_asked_when_the_first_is_away(registry: SchemaRegistry) -> None:
    Serializers(registry, "orders").register("orders-value", ORDER, "AVRO")
    client = client_of(registry, f"http://127.0.0.1:1,{registry.url}")
    assert client.by_subject("orders-value").version == 1


@pytest.mark.parametrize(
    ("header", "options"),
    [
        ("Basic YWRhOnNlY3JldA==", {"basic_auth_user_info": "ada:secret"}),
        ("Bearer secret", {"bearer_auth_token": "secret"}),
    ],
)
def test_credentials_are_sent_and_their_lack_is_told_without_them(
    header: str, options: dict[str, str]
) -> None:
    with SchemaRegistry(authorization=header) as registry:
        with pytest.raises(UnknownSchemaError):
            client_of(registry, **options).by_id(1)
        with pytest.raises(RegistryError, match="Unauthorized") as caught:
            wrong = {name: value.replace("secret", "secreter") for name, value in options.items()}
            client_of(registry, **wrong).by_id(1)
        assert "secret" not in str(caught.value)


def test_tls_with_an_authority_of_ones_own(tmp_path: Path) -> None:
    files = TlsFiles(tmp_path).create("localhost")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(files.broker_certificate, files.broker_key)
    with SchemaRegistry(tls=context) as registry:
        url = registry.url.replace("127.0.0.1", "localhost")
        with pytest.raises(UnknownSchemaError):
            client_of(registry, url, ssl_ca_location=str(files.authority)).by_id(1)
        with pytest.raises(RegistryError, match=r"(?i)certificate"):
            client_of(registry, url).by_id(1)
