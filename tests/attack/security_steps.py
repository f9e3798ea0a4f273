"""Large requests for `tests.attack.steps`: ACLs, users, and what comes before and amid log-in."""

from collections.abc import Iterator

from barnabas_protocol.acl import AclOperation, AclPermission, AclResourceType, PatternType
from barnabas_protocol.api import ApiKey
from barnabas_protocol.connection.sasl import PlainSaslClient
from barnabas_protocol.messages import (
    alter_client_quotas,
    alter_user_scram_credentials,
    api_versions,
    create_acls,
    delete_acls,
    describe_acls,
    describe_user_scram_credentials,
    elect_leaders,
    sasl_authenticate,
    sasl_handshake,
)
from tests.attack.large_request import Large
from tests.support.sasl_brokers import LISTENERS

SETTINGS = {
    **LISTENERS,
    "authorizer_class_name": "StandardAuthorizer",
    "super_users": "User:ANONYMOUS",
}
_USERS = [f"user-{number:05d}" for number in range(1_900)]


def security_requests() -> Iterator[Large]:
    """Those of who may change rights and users; the last ones see what the first have made."""
    creations = [
        create_acls.AclCreation(
            resource_type=AclResourceType.TOPIC,
            resource_name=f"topic-{number}",
            resource_pattern_type=PatternType.LITERAL + number % 2,
            principal=f"User:{number % 100}",
            host="*",
            operation=AclOperation.READ,
            permission_type=AclPermission.ALLOW,
        )
        for number in range(9_900)
    ]
    request = create_acls.CreateAclsRequest(creations=creations)
    yield Large("CreateAcls, 9,900", ApiKey.CREATE_ACLS, 2, request)
    any_one = describe_acls.DescribeAclsRequest(
        resource_type_filter=AclResourceType.ANY,
        pattern_type_filter=PatternType.ANY,
        operation=AclOperation.ANY,
        permission_type=AclPermission.ANY,
    )
    yield Large("DescribeAcls, 9,900 that match", ApiKey.DESCRIBE_ACLS, 2, any_one)
    filters = [
        delete_acls.DeleteAclsFilter(
            resource_type_filter=AclResourceType.TOPIC,
            resource_name_filter=f"none-{number}",
            pattern_type_filter=PatternType.MATCH,
            operation=AclOperation.ANY,
            permission_type=AclPermission.ANY,
        )
        for number in range(1_900)
    ]
    gone = delete_acls.DeleteAclsRequest(filters=filters)
    yield Large("DeleteAcls, 1,900 filters over 9,900", ApiKey.DELETE_ACLS, 2, gone)
    upsertions = [
        alter_user_scram_credentials.ScramCredentialUpsertion(
            name=name, mechanism=2, iterations=4096, salt=bytes(24), salted_password=bytes(64)
        )
        for name in _USERS
    ]
    users = alter_user_scram_credentials.AlterUserScramCredentialsRequest(upsertions=upsertions)
    key = ApiKey.ALTER_USER_SCRAM_CREDENTIALS
    yield Large("AlterUserScramCredentials, 1,900", key, 0, users)
    named = [describe_user_scram_credentials.UserName(name=name) for name in _USERS]
    described = describe_user_scram_credentials.DescribeUserScramCredentialsRequest(users=named)
    key = ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS
    yield Large("DescribeUserScramCredentials, 1,900", key, 0, described)
    entries = [
        alter_client_quotas.AlterClientQuotasRequestEntryData(
            entity=[alter_client_quotas.EntityData(entity_type="user", entity_name=name)],
            ops=[alter_client_quotas.OpData(key="producer_byte_rate", value=1e6)],
        )
        for name in _USERS[:600]
    ]
    quotas = alter_client_quotas.AlterClientQuotasRequest(entries=entries)
    yield Large("AlterClientQuotas, 600 users", ApiKey.ALTER_CLIENT_QUOTAS, 1, quotas)


def requests_before_login() -> Iterator[Large]:
    """What anybody may send who can connect; the broker may answer by closing."""
    name = "x" * 8_000
    versions = api_versions.ApiVersionsRequest(client_software_name=name)
    yield Large("ApiVersions, 8 KiB, before log-in", ApiKey.API_VERSIONS, 3, versions)
    handshake = sasl_handshake.SaslHandshakeRequest(mechanism="x" * 8_000)
    yield Large("SaslHandshake, 8 KiB", ApiKey.SASL_HANDSHAKE, 1, handshake)
    partitions = [elect_leaders.TopicPartitions(topic="t", partitions=[]) for _ in range(58_000)]
    elections = elect_leaders.ElectLeadersRequest(topic_partitions=partitions)
    begin = sasl_handshake.SaslHandshakeRequest(mechanism="PLAIN")
    yield Large(
        "ElectLeaders, 58,000 topics, amid log-in", ApiKey.ELECT_LEADERS, 0, elections, begin
    )
    few = elect_leaders.ElectLeadersRequest(topic_partitions=partitions[:850])
    yield Large("ElectLeaders, 850 topics, amid log-in", ApiKey.ELECT_LEADERS, 0, few, begin)
    password = PlainSaslClient("alice", "x" * 60_000).first()
    token = sasl_authenticate.SaslAuthenticateRequest(auth_bytes=password)
    yield Large("SaslAuthenticate, 60 kB password", ApiKey.SASL_AUTHENTICATE, 2, token, begin)
    noise = sasl_authenticate.SaslAuthenticateRequest(auth_bytes=b"\0" * 500_000)
    yield Large("SaslAuthenticate, 500 kB of NUL", ApiKey.SASL_AUTHENTICATE, 2, noise, begin)
