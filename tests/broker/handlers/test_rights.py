"""The table of rights: complete, and enforced before a handler runs where it is of the cluster."""

import asyncio
from pathlib import Path

import pytest

from barnabas_broker.handlers.rights import RULES, Rule, check_rules
from barnabas_broker.handlers.table import HANDLERS
from barnabas_protocol.acl import AclOperation
from barnabas_protocol.api import ApiKey
from barnabas_protocol.errors import ErrorCode
from barnabas_protocol.messages import describe_client_quotas, write_txn_markers
from tests.support.in_process_broker import running_broker
from tests.support.memory_authorizer import MemoryAuthorizer, to_cluster
from tests.support.raw_client import RawClient


def test_every_served_api_has_a_rule() -> None:
    """SEC-46: nothing is served by accident."""
    check_rules(HANDLERS)


def test_a_broker_without_a_rule_for_an_api_does_not_start() -> None:
    """SEC-46: the start fails, and says which API it is."""
    rules = {key: rule for key, rule in RULES.items() if key is not ApiKey.FETCH}
    with pytest.raises(RuntimeError, match="FETCH"):
        check_rules(HANDLERS, rules)


@pytest.mark.parametrize("rule", [Rule(), Rule(cluster=(AclOperation.ALTER,), reason="because")])
def test_a_rule_names_either_rights_or_why_none_is_needed(rule: Rule) -> None:
    """SEC-46: an empty rule is no oversight."""
    with pytest.raises(RuntimeError, match="FETCH"):
        check_rules(HANDLERS, {**RULES, ApiKey.FETCH: rule})


def test_the_dispatcher_asks_for_rights_to_the_cluster(tmp_path: Path) -> None:
    """SEC-46: without the right the error is the API's own; with one of several it is served."""

    async def run() -> None:
        authorizer = MemoryAuthorizer()
        async with (
            running_broker(tmp_path, authorizer) as server,
            await RawClient.connect(server.port) as client,
        ):
            quotas = describe_client_quotas.DescribeClientQuotasRequest()
            response = await client.call(ApiKey.DESCRIBE_CLIENT_QUOTAS, 1, quotas)
            assert response.error_code == ErrorCode.CLUSTER_AUTHORIZATION_FAILED
            assert authorizer.asked == [to_cluster(AclOperation.DESCRIBE_CONFIGS)]
            authorizer.grant(to_cluster(AclOperation.DESCRIBE_CONFIGS))
            response = await client.call(ApiKey.DESCRIBE_CLIENT_QUOTAS, 1, quotas)
            assert response.error_code == 0

            markers = write_txn_markers.WriteTxnMarkersRequest(
                markers=[
                    write_txn_markers.WritableTxnMarker(
                        producer_id=7,
                        topics=[
                            write_txn_markers.WritableTxnMarkerTopic(
                                name="orders", partition_indexes=[3]
                            )
                        ],
                    )
                ]
            )
            codes = {}
            for right in (AclOperation.DESCRIBE, AclOperation.ALTER, AclOperation.CLUSTER_ACTION):
                authorizer.grant(to_cluster(right))
                response = await client.call(ApiKey.WRITE_TXN_MARKERS, 1, markers)
                (partition,) = response.markers[0].topics[0].partitions
                assert (response.markers[0].producer_id, partition.partition_index) == (7, 3)
                codes[right] = partition.error_code
            assert codes == {
                AclOperation.DESCRIBE: ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
                AclOperation.ALTER: ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
                AclOperation.CLUSTER_ACTION: ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
            }

    asyncio.run(run())
