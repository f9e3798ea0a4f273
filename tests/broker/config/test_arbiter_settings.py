"""The arbiter's settings, checked against each other."""

import pytest

from barnabas_broker.config.definitions import ConfigError
from barnabas_broker.config.parse import BrokerConfig


def test_endpoints_of_etcd_are_tried_in_the_order_given() -> None:
    """Several servers, IPv6 and names included."""
    config = BrokerConfig.parse(
        {
            "listeners": "PLAINTEXT://:9092,REPLICATION://:9091",
            "arbiter.backend": "etcd",
            "arbiter.etcd.endpoints": "https://one.example:2379, https://[fe80::1]:2379",
        }
    )
    assert config.arbiter_etcd_endpoints == ("https://one.example:2379", "https://[fe80::1]:2379")


@pytest.mark.parametrize(
    ("properties", "complaint"),
    [
        ({"arbiter.backend": "etcd"}, "arbiter.etcd.endpoints: needed"),
        ({"arbiter.backend": "zookeeper"}, "file, etcd, kubernetes"),
        ({"arbiter.etcd.endpoints": "one:2379"}, "one:2379 is not http"),
        ({"arbiter.etcd.endpoints": "http://one:2379/v3"}, "is not http"),
        ({"arbiter.etcd.endpoints": "http://a:1,https://b:1"}, "either all are https or none"),
        ({"arbiter.kubernetes.server": "https://api"}, "https://api is not http"),
        ({"arbiter.etcd.endpoint": "http://a:1"}, "did you mean arbiter.etcd.endpoints"),
    ],
)
def test_settings_that_cannot_work_are_refused_at_the_start(
    properties: dict[str, str], complaint: str
) -> None:
    """BOOT-10: named by their keys, before anything is opened."""
    with pytest.raises(ConfigError, match=complaint):
        BrokerConfig.parse(properties)
