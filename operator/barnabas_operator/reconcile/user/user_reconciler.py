"""Reconciles the Users of a cluster, in one pass those that are due.

The order for one User: finalizer, rights and quotas, credential and files, status. A right is given
before the credential is there, so that nobody logs in without them, and taken with it.

Not here: which Users (`portions`), deciding (`user_plan`, `password`, `user_limits`), files
(`user_files`). Invariants: a User that is not admitted any more loses everything, as a deleted one
does; of several Users of one principal the oldest one speaks; an idle pass writes nothing.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from types import MappingProxyType
from typing import Any

from barnabas_client.admin.admin import Admin
from barnabas_client.env import Clock
from barnabas_client.errors import BarnabasError, RetriableError
from barnabas_operator import conditions
from barnabas_operator.admin_pool import AdminPool
from barnabas_operator.certificates.authority_secret import read_held
from barnabas_operator.certificates.pem import CertificateError
from barnabas_operator.conditions import Condition
from barnabas_operator.gateway.kafka_users import KafkaUsers, UserGateway
from barnabas_operator.kubernetes.api import (
    ConflictError,
    ForbiddenError,
    InvalidError,
    KubernetesApi,
    KubernetesError,
    NotFoundError,
    Object,
)
from barnabas_operator.kubernetes.events import Events
from barnabas_operator.kubernetes.kinds import SECRET, USER, Kind
from barnabas_operator.kubernetes.objects import (
    generation_of,
    is_going,
    name_of,
    namespace_of,
    uid_of,
)
from barnabas_operator.kubernetes.status_write import write_status
from barnabas_operator.reconcile.broker import names
from barnabas_operator.reconcile.broker.security_report import present_security
from barnabas_operator.reconcile.elsewhere import Elsewhere, NotAdmittedError, not_admitted
from barnabas_operator.reconcile.portions import Portion, Portions
from barnabas_operator.reconcile.topic_finalizer import going_seconds
from barnabas_operator.reconcile.topic_status import is_ready
from barnabas_operator.reconcile.user.broker_access import BrokerAccess
from barnabas_operator.reconcile.user.user_credentials import (
    CredentialInputs,
    Issued,
    NotReadyError,
    UserCredentials,
)
from barnabas_operator.reconcile.user.user_files import NotOursError
from barnabas_operator.reconcile.user.user_finalizer import (
    finalizer_patch,
    has_finalizer,
    let_go_because,
)
from barnabas_operator.reconcile.user.user_limits import beyond_limits
from barnabas_operator.reconcile.user.user_plan import (
    ObservedUser,
    UserPlan,
    plan_removal,
    plan_user,
)
from barnabas_operator.reconcile.user.user_status import UserFacts, status_of_refused, user_status
from barnabas_operator.settings import OperatorSettings
from barnabas_operator.spec import SpecError
from barnabas_operator.user_spec import UserSpec, former_name_of, principal_name_of
from barnabas_operator.work.bounded import for_each, in_portions
from barnabas_operator.work.key import Key
from barnabas_operator.work.watch_cache import WatchCache

logger = logging.getLogger(__name__)

_SOON_SECONDS = 3.0

MakeUserGateway = Callable[[Admin], UserGateway]


@dataclass(slots=True)
class _User:
    """A User during one pass; `manifest` is the newest version that is known.

    `former` is the name of whom it meant before, empty where it is the same.
    """

    manifest: Object
    spec: UserSpec | None = None
    problem: str = ""
    former: str = ""
    again_seconds: float | None = None

    @property
    def status(self) -> Mapping[str, Any]:
        found: Mapping[str, Any] = self.manifest.get("status") or {}
        return found

    @property
    def names(self) -> tuple[str, ...]:
        """Those by which brokers may know it."""
        own = () if self.spec is None else (self.spec.name,)
        return (*own, self.former) if self.former else own


class UserReconciler:
    """Users of all clusters, some of one cluster in each call."""

    def __init__(
        self,
        api: KubernetesApi,
        admins: AdminPool,
        settings: OperatorSettings,
        clock: Clock,
        cache: WatchCache,
        *,
        counted: Callable[[Kind, Key, int, int], None] = lambda kind, key, ready, others: None,
        make_gateway: MakeUserGateway = KafkaUsers,
    ) -> None:
        """`counted` hears how many Users are ready and how many are not."""
        self._api = api
        self._admins = admins
        self._settings = settings
        self._clock = clock
        self._cache = cache
        self._counted = counted
        self._make_gateway = make_gateway
        self._events = Events(api)
        self._credentials = UserCredentials(api)
        self._elsewhere = Elsewhere(cache.all_brokers, settings.elsewhere_namespaces)
        self._portions = Portions(cache, USER, clock, principal_name_of)

    async def reconcile(self, key: Key) -> float | None:
        """One pass over Users of a Broker; with an empty name over those that have none.

        Raises: KubernetesError; BarnabasError; what went wrong with one after all others were
        looked after.
        """
        portion = await self._portions.take(key)
        if portion.due:
            await self._pass(key, portion)
        users = self._portions.resources(key, portion.brokers)
        ready = 0
        async for one in in_portions(users, size=1000):
            ready += is_ready(one.get("status") or {})
        self._counted(USER, key, ready, len(users) - ready)
        return self._portions.again_seconds(key)

    async def _pass(self, key: Key, portion: Portion) -> None:
        users = [_read(manifest) for manifest in portion.due]
        failures: list[Exception] = []
        each = _UserPass(self, key, portion)

        async def settle(user: _User) -> None:
            try:
                user.again_seconds = self._settings.resync_seconds
                await each.settle(user)
            except NotFoundError:
                self._cache.missed(user.manifest)
            except ConflictError:
                user.again_seconds = _SOON_SECONDS
            except (KubernetesError, BarnabasError) as error:
                logger.warning("User not reconciled: %s: %s", _place(user), error)
                failures.append(error)
                return
            self._portions.settle(key, user.manifest, user.again_seconds)

        if portion.broker is not None:
            await each.look(portion.broker, users)
        await for_each(users, settle)
        if failures:
            raise failures[0]


class _UserPass:
    """What one pass has found out, and the steps for each User."""

    def __init__(self, owner: UserReconciler, key: Key, portion: Portion) -> None:
        self._owner = owner
        self._key = key
        self._portion = portion
        self._access: BrokerAccess | None = None
        self._observed: Mapping[str, ObservedUser] = MappingProxyType({})
        self._refusal: tuple[Condition, ...] = ()
        self._is_invalid = False  # of the Broker, whose Users that stay keep what they have
        self._error: BarnabasError | None = None
        self._owners = _owners(portion.resources)

    async def look(self, broker: Object, users: Sequence[_User]) -> None:
        """Look at the Broker, then at its brokers, once for all. Raises: KubernetesError."""
        owner = self._owner
        owner._admins.learn(broker)
        try:
            owner._elsewhere.check_namespace(broker)
            self._access = await self._read_access(broker)
        except NotAdmittedError as error:
            self._refusal = not_admitted(error)
            return
        except (SpecError, CertificateError) as error:
            self._refusal = conditions.stalled("BrokerInvalid", str(error))
            self._is_invalid = True
            if not any(is_going(user.manifest) for user in users):
                return
        if self._access is not None and not self._access.security.has_authentication:
            text = "spec.security of the Broker does not have anybody log in"
            self._refusal = conditions.stalled("SecurityIsOff", text)
            if not any(has_finalizer(user.manifest) for user in users):
                return
        named = {name for user in users for name in user.names}
        try:
            async with owner._admins.using(self._key.namespace, self._key.name) as admin:
                await owner._elsewhere.check(broker, admin)
                self._observed = await owner._make_gateway(admin).observe(named)
        except NotAdmittedError as error:
            self._refusal = not_admitted(error)
        except BarnabasError as error:
            self._error = error

    async def settle(self, user: _User) -> None:
        """Bring one User forward. Raises: KubernetesError; BarnabasError."""
        if is_going(user.manifest):
            await self._go(user)
            return
        refusal = self._why_refused(user)
        if refusal:
            loses_all = user.spec is not None and not self._is_invalid
            if loses_all and has_finalizer(user.manifest) and self._may_remove(user):
                await self._remove(user)
                await self._change_finalizer(user, is_wanted=False)
            await self._write(user, self._refused(user, refusal))
            return
        if self._error is not None:
            await self._tell_unreachable(user)
            return
        await self._bring_forward(user)

    def _why_refused(self, user: _User) -> tuple[Condition, ...]:
        """What stands in the way of a User, empty if nothing does."""
        broker, spec = self._portion.broker, user.spec
        if broker is None:
            text = f"there is no Broker {self._key.namespace}/{self._key.name or '(unnamed)'}"
            return conditions.stalled("BrokerNotFound", text)
        if spec is None:
            return conditions.stalled("InvalidSpec", user.problem)
        if self._refusal:
            return self._refusal
        assert self._access is not None
        spec = replace(spec, broker=name_of(broker))
        if beyond := beyond_limits(spec, self._access.limits):
            return conditions.stalled("NotAdmitted", beyond)
        if (first := self._owners.get(spec.name)) is not None and first != uid_of(user.manifest):
            text = f"another, older User means {spec.principal} as well"
            return conditions.stalled("ResourceConflict", text)
        return ()

    async def _bring_forward(self, user: _User) -> None:
        spec, access = user.spec, self._access
        assert spec is not None
        assert access is not None
        if not has_finalizer(user.manifest) and not spec.is_paused:
            await self._change_finalizer(user, is_wanted=True)
        observed = self._observed.get(spec.name, ObservedUser())
        plan = plan_user(spec, observed)
        unenforced = ""
        if not access.security.has_authorization:
            unenforced = "the Broker has no authorizer: everybody may do everything" * bool(
                spec.rights
            )
            plan = replace(plan, given=frozenset(), taken=frozenset())
        generation, now = generation_of(user.manifest), self._now()
        issued = None
        if spec.is_paused:
            verdict = self._paused_verdict(plan, generation)
        else:
            verdict, issued = await self._carry_out(user, spec, access, observed, plan)
        facts = UserFacts(
            acl_count=len(observed.rights if spec.is_paused else spec.rights) + len(plan.drift),
            drift=plan.drift,
            unenforced=unenforced,
            broker=self._key.name,
            secret=user.status.get("secret"),
            is_settled=False,
        )
        if issued is not None:
            facts = replace(
                facts,
                certificate_ends=issued.certificate_ends,
                credential=issued.credential,
                secret=issued.secret,
                is_settled=True,
            )
        status = user_status(
            spec, facts, verdict, generation=generation, before=user.status, now=now
        )
        await self._write(user, status)

    def _paused_verdict(self, plan: UserPlan, generation: int) -> tuple[Condition, ...]:
        if plan.is_done:
            return conditions.ready("Paused", "", generation=generation)
        return conditions.stalled("Paused", "changes wait for its end", generation=generation)

    async def _carry_out(
        self,
        user: _User,
        spec: UserSpec,
        access: BrokerAccess,
        observed: ObservedUser,
        plan: UserPlan,
    ) -> tuple[tuple[Condition, ...], Issued | None]:
        """The verdict, and what the User has by now, None where it could not be settled.

        Raises: RetriableError; KubernetesError.
        """
        owner, generation = self._owner, generation_of(user.manifest)
        try:
            async with owner._admins.using(self._key.namespace, self._key.name) as admin:
                gateway = owner._make_gateway(admin)
                if user.former:
                    await self._remove_name(user, user.former, gateway)
                if not plan.is_done:
                    await gateway.carry_out(spec.name, plan)
                issued = await owner._credentials.settle(
                    CredentialInputs(
                        user=user.manifest,
                        spec=spec,
                        access=access,
                        gateway=gateway,
                        observed=observed,
                        now=self._now(),
                    )
                )
        except RetriableError:
            raise
        except NotReadyError as error:
            user.again_seconds = _SOON_SECONDS
            return conditions.reconciling("Waiting", str(error), generation=generation), None
        except NotOursError as error:
            return conditions.stalled("NotOurs", str(error), generation=generation), None
        except CertificateError as error:
            return conditions.stalled("InvalidSpec", str(error), generation=generation), None
        except (InvalidError, ForbiddenError) as error:
            return conditions.stalled("NotWritten", str(error), generation=generation), None
        except BarnabasError as error:
            return conditions.stalled("Refused", str(error), generation=generation), None
        return conditions.ready("Applied", "", generation=generation), issued

    async def _go(self, user: _User) -> None:
        """Take everything of a deleted User away, then let it go."""
        user.again_seconds = _SOON_SECONDS
        if not has_finalizer(user.manifest):
            user.again_seconds = None
            return
        if self._may_remove(user):
            await self._remove(user)
        else:
            seconds = going_seconds(user.manifest, self._now())
            admins, settings = self._owner._admins, self._owner._settings
            why = let_go_because(
                is_broker_gone=self._portion.broker is None or not user.names,
                unreachable_seconds=admins.unreachable_seconds(self._key.namespace, self._key.name),
                going_seconds=seconds,
                patience=settings.unreachable_seconds,
            )
            if not why:
                return
            await self._owner._events.emit(user.manifest, "UserKept", why, type_="Warning")
        await self._change_finalizer(user, is_wanted=False)

    def _may_remove(self, user: _User) -> bool:
        """Whether brokers were asked what they have of this user, which is this User's."""
        names = user.names
        return bool(names) and self._error is None and self._observed.keys() >= set(names)

    async def _remove(self, user: _User) -> None:
        """Raises: BarnabasError; KubernetesError."""
        owner = self._owner
        async with owner._admins.using(self._key.namespace, self._key.name) as admin:
            gateway = owner._make_gateway(admin)
            for name in user.names:
                await self._remove_name(user, name, gateway)

    async def _remove_name(self, user: _User, name: str, gateway: UserGateway) -> None:
        """Take away all of a principal, unless another User speaks for it.

        Raises: BarnabasError.
        """
        holder, observed = self._owners.get(name, uid_of(user.manifest)), self._observed[name]
        if holder != uid_of(user.manifest) or observed.is_nothing:
            return
        # Whoever cannot log in any more needs no rights; the other way round is worse.
        if observed.has_credential or observed.has_other_credentials:
            await gateway.remove_credentials(name)
        await gateway.carry_out(name, plan_removal(observed))

    async def _change_finalizer(self, user: _User, *, is_wanted: bool) -> None:
        metadata = user.manifest["metadata"]
        patch = finalizer_patch(user.manifest, is_wanted=is_wanted)
        written = await self._owner._api.patch(
            USER, metadata["namespace"], metadata["name"], patch, uid=metadata["uid"]
        )
        user.manifest = written
        self._owner._cache.wrote(written)

    async def _tell_unreachable(self, user: _User) -> None:
        """What was seen last stays for a while; then it counts as not known."""
        user.again_seconds = _SOON_SECONDS
        seconds = self._owner._admins.unreachable_seconds(self._key.namespace, self._key.name)
        if is_ready(user.status) and seconds <= self._owner._settings.unreachable_seconds:
            return
        verdict = conditions.reconciling("BrokersUnreachable", str(self._error))
        await self._write(user, self._refused(user, verdict))

    def _refused(self, user: _User, verdict: tuple[Condition, ...]) -> dict[str, Any]:
        generation = generation_of(user.manifest)
        told = tuple(replace(one, observed_generation=generation) for one in verdict)
        return status_of_refused(told, generation=generation, before=user.status, now=self._now())

    async def _write(self, user: _User, status: Mapping[str, Any]) -> None:
        written = await write_status(self._owner._api, user.manifest, status)
        if written is not None:
            user.manifest = written
            self._owner._cache.wrote(written)

    async def _read_access(self, broker: Object) -> BrokerAccess:
        """Raises: SpecError; CertificateError; KubernetesError."""
        namespace, name = namespace_of(broker), name_of(broker)
        security, phase = present_security(broker)
        access = BrokerAccess(namespace=namespace, name=name, security=security)
        if not (security.has_tls or phase.has_certificates):
            return access
        api = self._owner._api
        cluster = read_held(await api.get(SECRET, namespace, names.cluster_authority(name)))
        clients = read_held(await api.get(SECRET, namespace, names.clients_authority(name)))
        return replace(
            access,
            bundle="" if cluster is None else cluster.bundle,
            clients=None if clients is None else clients.signer,
        )

    def _now(self) -> datetime:
        return datetime.fromtimestamp(self._owner._clock.wall_ms() / 1000, UTC)


def _read(manifest: Object) -> _User:
    former = former_name_of(manifest)
    try:
        return _User(manifest, spec=UserSpec.from_manifest(manifest), former=former)
    except SpecError as error:
        return _User(manifest, problem=str(error), former=former)


def _owners(resources: Sequence[Object]) -> dict[str, str]:
    """By principal's name the uid of the User that speaks for it: the oldest that stays."""
    found: dict[str, tuple[tuple[str, int, str], str]] = {}
    for manifest in resources:
        if is_going(manifest):
            continue
        user = _read(manifest)
        if user.spec is None:
            continue
        mine = user.spec.age, uid_of(manifest)
        if user.spec.name not in found or mine < found[user.spec.name]:
            found[user.spec.name] = mine
    return {name: uid for name, (_, uid) in found.items()}


def _place(user: _User) -> str:
    return f"{namespace_of(user.manifest)}/{name_of(user.manifest)}"
