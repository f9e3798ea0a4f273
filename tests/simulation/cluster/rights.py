"""A user whose rights are taken away and given back while they produce, fetch and commit (SEC-44).

The user logs in on a listener of their own; who changes their rights is a super user. From the
moment when all brokers that live go by a change, everything that the user begins must be accepted
or refused by it, whatever befalls the cluster; what was refused is never in the log.
"""

import asyncio
from collections.abc import Callable, Sequence
from typing import NamedTuple

from barnabas_broker.security.authorizer import AccessQuestion
from barnabas_broker.security.principal import ANONYMOUS, Principal
from barnabas_protocol.acl import AclOperation, AclPermission, AclResourceType, PatternType
from barnabas_protocol.api import ApiKey
from barnabas_protocol.connection.sasl import PlainSaslClient
from barnabas_protocol.errors import ErrorCode
from barnabas_protocol.messages.create_acls import AclCreation, CreateAclsRequest
from barnabas_protocol.messages.delete_acls import DeleteAclsFilter, DeleteAclsRequest
from barnabas_protocol.messages.sasl_authenticate import SaslAuthenticateRequest
from barnabas_protocol.messages.sasl_handshake import SaslHandshakeRequest
from tests.simulation import requests
from tests.simulation.cluster.administration import create_topic
from tests.simulation.cluster.client import (
    CLIENTS_HOST,
    Address,
    ClusterClient,
    checked,
)
from tests.simulation.cluster.history import History, HistoryError
from tests.simulation.cluster.node import USERS_PORT, Node
from tests.simulation.cluster.plan import Plan
from tests.simulation.cluster.specialists import Specialist
from tests.support.raw_client import RawClient

NAME, PASSWORD = "carol", "carols-secret"
PRINCIPAL = Principal.user(NAME)
TOPIC, GROUP = "rights", "rights-group"
ACTIONS_MAX = 6
LOOK_SECONDS = 0.05
LOOKS_MAX = 40
REFUSED = frozenset((ErrorCode.TOPIC_AUTHORIZATION_FAILED, ErrorCode.GROUP_AUTHORIZATION_FAILED))
SETTINGS = {
    "listener.security.protocol.map": (
        "PLAINTEXT:PLAINTEXT,REPLICATION:PLAINTEXT,USERS:SASL_PLAINTEXT"
    ),
    "listener.name.users.sasl.enabled.mechanisms": "PLAIN",
    "listener.name.users.plain.sasl.jaas.config": (
        "org.apache.kafka.common.security.plain.PlainLoginModule required "
        f'user_{NAME}="{PASSWORD}";'
    ),
    "barnabas.allow.plain.without.tls": "true",
    "authorizer.class.name": "StandardAuthorizer",
    "super.users": str(ANONYMOUS),
    "barnabas.broker.principals": str(ANONYMOUS),
}


class Right(NamedTuple):
    """What is taken away and given back."""

    operation: AclOperation
    resource_type: AclResourceType
    name: str

    @property
    def question(self) -> AccessQuestion:
        """Whether the user has it."""
        return AccessQuestion(PRINCIPAL, CLIENTS_HOST, *self)


WRITE = Right(AclOperation.WRITE, AclResourceType.TOPIC, TOPIC)
READ = Right(AclOperation.READ, AclResourceType.TOPIC, TOPIC)
GROUP_READ = Right(AclOperation.READ, AclResourceType.GROUP, GROUP)
RIGHTS = (WRITE, READ, GROUP_READ)


class LoggedInClient(ClusterClient):
    """A client whose connections log in first."""

    async def connect(self, address: Address) -> RawClient:
        """The connection to a broker, logged in. Raises: LOST."""
        if address in self._connections:
            return self._connections[address]
        connection = await super().connect(address)
        try:
            async with asyncio.timeout(self.answer_seconds):
                await self._log_in(connection)
        except BaseException:
            self.let_go(address)
            raise
        return connection

    async def _log_in(self, connection: RawClient) -> None:
        handshake = SaslHandshakeRequest(mechanism="PLAIN")
        response = await connection.call(ApiKey.SASL_HANDSHAKE, 1, handshake)
        assert response.error_code == 0, response
        token = SaslAuthenticateRequest(auth_bytes=PlainSaslClient(NAME, PASSWORD).first())
        response = await connection.call(ApiKey.SASL_AUTHENTICATE, 2, token)
        assert response.error_code == 0, response


class RightsUser(Specialist):
    """The user, and who takes their rights away; `client` is the latter's."""

    topic = TOPIC

    def __init__(
        self,
        client: ClusterClient,
        history: History,
        plan: Plan,
        wall_ms: Callable[[], int],
        *,
        user: LoggedInClient,
        nodes: Sequence[Node],
    ) -> None:
        super().__init__(client, history, plan, wall_ms)
        self._user = user
        self._nodes = nodes
        self._taken: Right | None = None  # what the user lacks, or is about to lack or get back
        self._wants_taken = False
        self._by_deny = False
        self._is_settled = False  # whether all brokers go by it
        self._is_given = False  # whether the user was ever given all
        self._count = 0
        self._offset = 0
        self._accepted: list[bytes] = []
        self._refused: list[bytes] = []
        self.changes = 0

    def interrupted(self) -> None:
        """The user's connections go as well."""
        self._user.drop()

    async def work(self) -> None:
        """Work with what there is, then change it. Raises: LOST; HistoryError."""
        if not self.has_topic:
            await create_topic(self.client, self.history, TOPIC, 1, self.plan.replicas)
            self.has_topic = True
        while not self.is_over:
            if not self._is_settled:
                await self._bring_about()
            for _ in range(self.random.integer(ACTIONS_MAX)):
                await self._act()
                await self.pause()
            self._choose()
        self._user.drop()

    def _choose(self) -> None:
        """Decide on the next change."""
        self._is_settled = False
        if self._taken is None:
            self._taken = RIGHTS[self.random.integer(len(RIGHTS))]
            self._by_deny = bool(self.random.integer(2))
            self._wants_taken = True
        else:
            self._wants_taken = False

    async def _bring_about(self) -> None:
        """Change the rights, and return when every broker that lives goes by them.

        Asked for again after a while: what was asked before, without an answer, may come late.
        """
        while not self._is_settled:
            await self._ask()
            for _ in range(LOOKS_MAX):
                if self._is_in_force():
                    self._is_settled = True
                    break
                await self._act()
                await asyncio.sleep(LOOK_SECONDS)
        self._is_given = True
        if not self._wants_taken:
            self._taken = None
        self.changes += 1
        self.client.works()
        self.client.note(self.client.name, "settled", self._taken)

    async def _ask(self) -> None:
        if not self._is_given:
            await self._create([(right, AclPermission.ALLOW) for right in RIGHTS])
        elif self._taken is not None:
            permission = AclPermission.DENY if self._by_deny else AclPermission.ALLOW
            if self._by_deny == self._wants_taken:
                await self._create([(self._taken, permission)])
            else:
                await self._delete(self._taken, permission)

    def _is_in_force(self) -> bool:
        """Whether each broker that lives decides so; who starts has the newest before it serves."""
        taken = self._taken if self._wants_taken else None
        for node in self._nodes:
            authorizer = None if node.server is None else node.server.authorizer
            if not node.is_up or authorizer is None:
                continue
            for right in RIGHTS:
                if authorizer.is_allowed(right.question, is_filter=True) is (right == taken):
                    return False
        return True

    async def _create(self, wanted: Sequence[tuple[Right, AclPermission]]) -> None:
        request = CreateAclsRequest(
            creations=[
                AclCreation(
                    resource_type=right.resource_type,
                    resource_name=right.name,
                    resource_pattern_type=PatternType.LITERAL,
                    principal=str(PRINCIPAL),
                    host="*",
                    operation=right.operation,
                    permission_type=permission,
                )
                for right, permission in wanted
            ]
        )
        response = await self.client.call(self.client.anyone(), ApiKey.CREATE_ACLS, 3, request)
        for result in response.results:
            _expect(result.error_code, "creating ACLs")

    async def _delete(self, right: Right, permission: AclPermission) -> None:
        only = DeleteAclsFilter(
            resource_type_filter=right.resource_type,
            resource_name_filter=right.name,
            pattern_type_filter=PatternType.LITERAL,
            principal_filter=str(PRINCIPAL),
            host_filter="*",
            operation=right.operation,
            permission_type=permission,
        )
        request = DeleteAclsRequest(filters=[only])
        response = await self.client.call(self.client.anyone(), ApiKey.DELETE_ACLS, 3, request)
        for result in response.filter_results:
            _expect(result.error_code, "deleting ACLs")

    # ---- what the user does ----------------------------------------------------------------------

    async def _act(self) -> None:
        """One request of the user, held against what they may. Raises: LOST; HistoryError."""
        act, needed = (
            (self._produce, {WRITE}),
            (self._fetch, {READ}),
            (self._commit, {READ, GROUP_READ}),
        )[self.random.integer(3)]
        expected = self._taken not in needed if self._is_settled else None
        error_code = await act()
        is_refused = error_code in REFUSED
        if not is_refused and not checked(error_code):
            raise HistoryError(f"{act.__name__}: {ErrorCode(error_code).name}")
        if expected is not None and is_refused is expected:
            what = "refused" if is_refused else "accepted"
            raise HistoryError(f"{act.__name__} is {what}, though {self._taken} is what is taken")
        self.client.note(self._user.name, act.__name__, error_code)

    async def _produce(self) -> int:
        address, _ = await self.client.leader_of(TOPIC, 0)
        connection = await self._user.connect((address[0], USERS_PORT))
        self._count += 1
        value = b"%d" % self._count
        request = requests.append_request(TOPIC, 0, [value], timestamp_ms=self.wall_ms())
        try:
            async with asyncio.timeout(self._user.answer_seconds):
                error_code = (await requests.append(connection, request)).error_code
        except BaseException:
            self._user.drop()
            raise
        if error_code == 0:
            self._accepted.append(value)
        elif error_code in REFUSED:
            self._refused.append(value)
        return error_code

    async def _fetch(self) -> int:
        address, _ = await self.client.leader_of(TOPIC, 0)
        connection = await self._user.connect((address[0], USERS_PORT))
        async with asyncio.timeout(self._user.answer_seconds):
            return (await requests.read_from(connection, TOPIC, 0, 0)).error_code

    async def _commit(self) -> int:
        host, _ = await self.client.coordinator_of(GROUP)
        connection = await self._user.connect((host, USERS_PORT))
        self._offset += 1
        async with asyncio.timeout(self._user.answer_seconds):
            return await requests.commit_offset(connection, GROUP, TOPIC, 0, self._offset)

    async def check(self) -> None:
        """What was acknowledged is there, and nothing that was refused. Raises: LOST."""
        self._user.drop()
        if not self.has_topic:
            return
        _, records = await self.read_all()
        values = {record.value for record in records}
        missing = [value for value in self._accepted if value not in values]
        if missing:
            raise HistoryError(f"{TOPIC} lacks what was acknowledged: {missing}")
        let_in = [value for value in self._refused if value in values]
        if let_in:
            raise HistoryError(f"{TOPIC} has what was refused: {let_in}")


def _expect(error_code: int, what: str) -> None:
    """Raises: RetryError for what may be tried again, HistoryError for anything else."""
    if not checked(error_code):
        raise HistoryError(f"{what}: {ErrorCode(error_code).name}")
