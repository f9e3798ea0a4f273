"""`admin.acls`, `admin.quotas`, `admin.scram` and `admin.tokens`: on Apache Kafka, and refused."""

import asyncio
import base64
import hashlib
import hmac
from collections.abc import Callable

import pytest

from barnabas_client.admin.scram import salted
from barnabas_client.admin.values.acls import AclBinding, AclFilter, operations_of_bits
from barnabas_client.admin.values.quotas import DEFAULT, QuotaEntity, QuotaFilter
from barnabas_client.admin.values.scram import (
    ScramCredential,
    ScramDeletion,
    ScramMechanism,
    ScramUpsertion,
)
from barnabas_client.admin.values.tokens import Principal
from barnabas_client.admin.values.topics import NewTopic
from barnabas_client.errors import (
    AuthenticationError,
    AuthorizationError,
    NotFoundError,
    RejectedError,
    UnsupportedError,
    UsageError,
)
from barnabas_protocol.acl import AclOperation, AclPermission, AclResourceType, PatternType
from barnabas_protocol.errors import ErrorCode
from tests.client.admin.raw_requests import connected, create_topics
from tests.client.admin.secured_kafka import PASSWORD, USERNAME, SecuredKafka
from tests.support.in_process_broker import eventually

Unique = Callable[[str], str]


def test_a_salted_password_is_that_of_the_rfc() -> None:
    """RFC 7677, section 3: with user "user" and password "pencil" the proof is the one printed."""
    salt = base64.b64decode("W22ZaJ0SNY7soEsUEjb6gQ==")
    change = ScramUpsertion(
        user="user", mechanism=ScramMechanism.SHA_256, password="pencil", salt=salt
    )
    entry = salted(change)
    nonce = "rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0"
    messages = f"n=user,r=rOprNGfwEbeRWgbNEkqO,r={nonce},s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096,"
    client_key = hmac.digest(bytes(entry.salted_password), b"Client Key", "sha256")
    signature = hmac.digest(
        hashlib.sha256(client_key).digest(), f"{messages}c=biws,r={nonce}".encode(), "sha256"
    )
    proof = bytes(one ^ other for one, other in zip(client_key, signature, strict=True))
    assert base64.b64encode(proof) == b"dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ="


def test_passwords_do_not_show_and_salts_differ() -> None:
    """What is printed or logged must not tell a password; equal ones must not look equal."""
    change = ScramUpsertion(user="alice", password="secret")
    assert "secret" not in repr(change)
    assert salted(change).salt != salted(change).salt
    assert len(salted(change).salted_password) == hashlib.sha512().digest_size


def test_a_bit_field_of_operations_is_a_set() -> None:
    """Bit n stands for the operation with number n; the smallest int32 for "was not asked"."""
    assert operations_of_bits(1 << 3 | 1 << 8) == frozenset(
        (AclOperation.READ, AclOperation.DESCRIBE)
    )
    assert operations_of_bits(-(1 << 31)) is None


def test_a_quota_entity_is_the_same_however_it_is_written() -> None:
    """It is the key of what is listed, so the order of its parts may not matter."""
    entity = QuotaEntity.of(user="alice", client_id=DEFAULT)
    assert entity == QuotaEntity.from_parts({"user": "alice", "client-id": None})
    assert str(entity) == "client-id (default), user alice"


def test_barnabas_says_in_one_line_what_it_does_not_serve(barnabas: str) -> None:
    """Rights and tokens are not served yet."""

    async def run() -> None:
        async with connected(barnabas) as (_, admin):
            binding = AclBinding(
                resource_type=AclResourceType.TOPIC,
                resource_name="a",
                principal="User:alice",
                operation=AclOperation.READ,
            )
            errors = [
                (await admin.acls.create([binding]))[binding].error,
                (await admin.acls.delete([AclFilter()]))[AclFilter()].error,
            ]
            for error in errors:
                assert isinstance(error, UnsupportedError)
                assert "\n" not in str(error)
            for call in (
                admin.acls.list(),
                admin.tokens.list(),
                admin.tokens.create(),
                admin.tokens.renew(b"hmac"),
                admin.tokens.expire(b"hmac"),
            ):
                with pytest.raises(UnsupportedError):
                    await call

    asyncio.run(run())


@pytest.mark.interop
def test_without_an_authorizer_rights_are_unsupported(apache: str) -> None:
    """SECURITY_DISABLED: do without, or switch it on."""

    async def run() -> None:
        async with connected(apache) as (_, admin):
            with pytest.raises(UnsupportedError) as raised:
                await admin.acls.list()
            assert raised.value.code is ErrorCode.SECURITY_DISABLED

    asyncio.run(run())


@pytest.mark.interop
def test_rights_are_given_listed_and_taken(secured: SecuredKafka, unique: Unique) -> None:
    """One binding each for a topic and a prefix; filters find them, deleting says what went."""
    topic, user = unique("admin.acl"), f"User:{unique('alice')}"
    literal = AclBinding(
        resource_type=AclResourceType.TOPIC,
        resource_name=topic,
        principal=user,
        operation=AclOperation.READ,
    )
    prefixed = AclBinding(
        resource_type=AclResourceType.GROUP,
        resource_name="admin",
        pattern_type=PatternType.PREFIXED,
        principal=user,
        host="10.0.0.1",
        operation=AclOperation.ALL,
        permission=AclPermission.DENY,
    )
    wrong = AclBinding(
        resource_type=AclResourceType.CLUSTER,
        resource_name="not-the-cluster",
        principal=user,
        operation=AclOperation.ALTER,
    )

    async def run() -> None:
        async with connected(secured.bootstrap) as (_, admin):
            created = await admin.acls.create([literal, wrong, prefixed])
            assert created[literal].is_ok
            assert created[prefixed].is_ok
            assert isinstance(created[wrong].error, UsageError)
            whose = AclFilter(principal=user)

            async def are_listed() -> bool:
                return set(await admin.acls.list(whose)) == {literal, prefixed}

            await eventually(are_listed)
            assert {literal, prefixed} <= set(await admin.acls.list())
            matching = AclFilter(
                resource_type=AclResourceType.TOPIC,
                resource_name=topic,
                pattern_type=PatternType.MATCH,
            )
            assert await admin.acls.list(matching) == (literal,)
            nothing = AclFilter(principal="User:nobody")
            deleted = await admin.acls.delete([whose, nothing])
            assert set(deleted[whose].unwrap()) == {literal, prefixed}
            assert deleted[nothing].unwrap() == ()

    asyncio.run(run())


@pytest.mark.interop
def test_credentials_made_here_let_a_user_in_who_may_do_what_is_allowed(
    secured: SecuredKafka, unique: Unique
) -> None:
    """The whole way: credential, log-in, refused for want of rights, allowed, removed."""
    user, topic = unique("alice"), unique("admin.scram")
    login = {
        "security_protocol": "SASL_PLAINTEXT",
        "sasl_mechanism": "SCRAM-SHA-512",
        "sasl_username": user,
        "sasl_password": "wonderland",
    }

    async def run() -> None:
        async with connected(secured.bootstrap) as (_, admin):
            changes = [
                ScramUpsertion(user=user, password="wonderland", iterations=8192),
                ScramUpsertion(user=user, mechanism=ScramMechanism.SHA_256, password="wonderland"),
            ]
            assert (await admin.scram.alter(changes)).errors == {}

            async def is_described() -> bool:
                described = await admin.scram.describe([user])
                return described.successes == {
                    user: (
                        ScramCredential(mechanism=ScramMechanism.SHA_256, iterations=4096),
                        ScramCredential(mechanism=ScramMechanism.SHA_512, iterations=8192),
                    )
                }

            await eventually(is_described)
            assert user in await admin.scram.describe()
            await create_topics(admin, NewTopic(name=topic))
            async with connected(secured.sasl_bootstrap, **login) as (_, alice):
                denied = (await alice.topics.delete([topic]))[topic].error
                assert isinstance(denied, AuthorizationError)
                right = AclBinding(
                    resource_type=AclResourceType.TOPIC,
                    resource_name=topic,
                    principal=f"User:{user}",
                    operation=AclOperation.DELETE,
                )
                (await admin.acls.create([right])).unwrap()

                async def is_deleted() -> bool:
                    return (await alice.topics.delete([topic]))[topic].is_ok

                await eventually(is_deleted)
            removal = [
                ScramDeletion(user=user, mechanism=ScramMechanism.SHA_256),
                ScramDeletion(user=user, mechanism=ScramMechanism.SHA_512),
            ]
            assert (await admin.scram.alter(removal)).errors == {}
            again = (await admin.scram.alter(removal))[user].error
            assert isinstance(again, NotFoundError)

            async def is_locked_out() -> bool:
                try:
                    async with connected(secured.sasl_bootstrap, **login):
                        return False
                except AuthenticationError:
                    return True

            await eventually(is_locked_out)
            weak = ScramUpsertion(user=user, password="x", iterations=10)
            assert isinstance((await admin.scram.alter([weak]))[user].error, UsageError)

    asyncio.run(run())


@pytest.mark.interop
def test_quotas_are_set_listed_and_removed(secured: SecuredKafka, unique: Unique) -> None:
    """A user's own quota, the default of client ids, and validation without a change."""
    own = QuotaEntity.of(user=unique("alice"))
    default = QuotaEntity.of(client_id=DEFAULT)

    async def run() -> None:
        async with connected(secured.bootstrap) as (_, admin):
            rates = {"producer_byte_rate": 1024.0, "consumer_byte_rate": 2048.0}
            dry = await admin.quotas.alter({own: rates}, validate_only=True)
            assert dry[own].is_ok
            (await admin.quotas.alter({own: rates, default: {"request_percentage": 50.0}})).unwrap()

            async def are_listed() -> bool:
                listed = await admin.quotas.list()
                return (listed.get(own), listed.get(default)) == (
                    rates,
                    {"request_percentage": 50.0},
                )

            await eventually(are_listed)
            name = own.components[0][1]
            assert name is not None
            assert await admin.quotas.list([QuotaFilter.exact("user", name)]) == {own: rates}
            by_default = await admin.quotas.list([QuotaFilter.default("client-id")], strict=True)
            assert by_default.keys() == {default}
            anybody = await admin.quotas.list([QuotaFilter.any("user")])
            assert own in anybody
            wrong = await admin.quotas.alter({own: {"no_such_quota": 1.0}})
            assert isinstance(wrong[own].error, UsageError)
            removal = {own: dict.fromkeys(rates), default: {"request_percentage": None}}
            (await admin.quotas.alter(removal)).unwrap()

            async def are_gone() -> bool:
                return not {own, default} & (await admin.quotas.list()).keys()

            await eventually(are_gone)

    asyncio.run(run())


@pytest.mark.interop
def test_tokens_are_created_used_renewed_and_expired(secured: SecuredKafka) -> None:
    """KIP-48: who logged in makes a token, and a token is the password of a log-in."""
    login = {"security_protocol": "SASL_PLAINTEXT", "sasl_mechanism": "PLAIN"}
    root = {**login, "sasl_username": USERNAME, "sasl_password": PASSWORD}
    renewer = Principal.user("renewer")

    async def run() -> None:
        async with connected(secured.sasl_bootstrap, **root) as (_, admin):
            token = await admin.tokens.create(renewers=[renewer], max_lifetime_ms=3_600_000)
            assert token.owner == Principal.user(USERNAME)
            assert token.renewers == (renewer,)
            assert token.issued_at_ms < token.expires_at_ms <= token.max_lifetime_ends_at_ms
            assert repr(token.hmac) not in repr(token)

            async def is_listed() -> bool:
                listed = await admin.tokens.list([Principal.user(USERNAME)])
                return token.token_id in {one.token_id for one in listed}

            await eventually(is_listed)
            (same,) = (one for one in await admin.tokens.list() if one.token_id == token.token_id)
            assert (same.hmac, same.requester) == (token.hmac, Principal.user(USERNAME))
            assert await admin.tokens.list([Principal.user("nobody")]) == ()
            renewed_until = await admin.tokens.renew(token.hmac, renew_period_ms=60_000)
            assert token.issued_at_ms < renewed_until <= token.max_lifetime_ends_at_ms
            expired_at = await admin.tokens.expire(token.hmac)
            assert expired_at < renewed_until

            async def is_gone() -> bool:
                listed = await admin.tokens.list()
                return token.token_id not in {one.token_id for one in listed}

            await eventually(is_gone)
            with pytest.raises(NotFoundError):
                await admin.tokens.renew(token.hmac)
        async with connected(secured.bootstrap) as (_, anonymous):
            with pytest.raises(RejectedError) as raised:
                await anonymous.tokens.create()
            assert raised.value.code is ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED

    asyncio.run(run())
