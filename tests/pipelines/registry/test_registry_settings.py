"""What a job is told of a registry becomes what the client is told, and no secret is shown."""

import pytest
from confluent_kafka.schema_registry import SchemaRegistryClient

from barnabas_pipelines.errors import OptionsError
from barnabas_pipelines.registry.settings import RegistrySettings


def test_options_of_java_users_mean_the_same() -> None:
    given = {
        "basic.auth.credentials.source": "USER_INFO",
        "schema.registry.basic.auth.user.info": "ada:secret",
        "max.retries": "7",
    }
    conf = RegistrySettings.of("http://a:8081", given).client_conf()
    assert conf["basic.auth.user.info"] == "ada:secret"
    assert conf["max.retries"] == 7
    assert "basic.auth.credentials.source" not in conf


def test_a_request_has_a_timeout_unless_told_otherwise() -> None:
    """Confluent's client waits for ever by default."""
    assert RegistrySettings.of("http://a", {}).client_conf()["timeout"] == 30


@pytest.mark.parametrize(
    "given",
    [
        {},
        {"bearer.auth.token": "t"},
        {
            "bearer.auth.credentials.source": "OAUTHBEARER",
            "bearer.auth.client.id": "i",
            "bearer.auth.client.secret": "s",
            "bearer.auth.scope": "all",
            "bearer.auth.issuer.endpoint.url": "http://127.0.0.1:1/token",
        },
    ],
)
def test_the_client_takes_them(given: dict[str, str]) -> None:
    conf = RegistrySettings.of("http://127.0.0.1:1,http://127.0.0.1:2", given).client_conf()
    SchemaRegistryClient(conf).close()


@pytest.mark.parametrize(
    ("url", "options", "text"),
    [
        ("registry:8081", {}, "it must be a URL"),
        ("ftp://a", {}, "it must be a URL"),
        ("http://[a", {}, "it must be a URL"),
        ("http://ada:sec/ret@a:8081", {}, r"8081$"),
        ("http://a", {"basic.auth.userinfo": "x"}, "did you mean basic.auth.user.info"),
        ("http://a", {"timeout": "soon"}, "timeout: it must be a number"),
        ("http://a", {"timeout": "0"}, "timeout: it must be a number"),
        ("http://a", {"basic.auth.credentials.source": "SASL_INHERIT"}, "USER_INFO or URL"),
    ],
)
def test_what_cannot_be_meant_is_refused(url: str, options: dict[str, str], text: str) -> None:
    with pytest.raises(OptionsError, match=text):
        RegistrySettings.of(url, options)


def test_no_secret_is_shown() -> None:
    settings = RegistrySettings.of(
        "https://ada:secret@a:8081/sub, http://b", {"bearer.auth.token": "secret"}
    )
    assert settings.shown == "https://a:8081/sub,http://b"
    assert "secret" not in repr(settings)
