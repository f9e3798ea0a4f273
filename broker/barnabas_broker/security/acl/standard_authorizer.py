"""The authorizer by ACLs: super users, then ACLs, then what holds where there is none.

An index of the newest metadata image is swapped as a whole, so that no check sees half of what one
request has changed; decisions are kept as long as the index. Until there is a first image nobody
but super users may do anything. Pure: what is decided goes to metrics and, by the handlers, to the
audit log.

In the mode AUDIT_ONLY everything is allowed, and the audit log tells what would not be: so a
cluster learns which ACLs it lacks (SEC-89). Who changes rights themselves is held to them even so:
else anybody could give himself what holds later. So is who acts as a broker.

Source: SEC-41, SEC-42, SEC-44; Kafka's StandardAuthorizer.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Iterator, Mapping
from enum import Enum
from typing import Final, NamedTuple

from barnabas_broker.config.parse import BrokerConfig
from barnabas_broker.metrics.sample import Sample
from barnabas_broker.security.acl.acl import Acl
from barnabas_broker.security.acl.index import AclIndex, verdict_of
from barnabas_broker.security.authorizer import CLUSTER_NAME, AccessQuestion
from barnabas_broker.security.principal import Principal
from barnabas_protocol.acl import AclOperation, AclPermission, AclResourceType

LOOP_ACLS_MAX: Final = 100
"""So many changes are indexed in some milliseconds, whatever there is already."""
DECISIONS_KEPT: Final = 20_000
KEPT_LENGTH_MAX: Final = 256
"""Clients may name any number of resources of any length; beyond this, they are decided anew."""
# What Kafka asks about first in place of any resource of a type; to be as it is.
_ANY_RESOURCE: Final = "hardcode"


class Mode(Enum):
    """What becomes of a denial."""

    ENFORCE = "enforce"
    AUDIT_ONLY = "audit-only"


class Decision(NamedTuple):
    """Whether something is allowed, and what decides that."""

    is_allowed: bool
    rule: Acl | str  # SuperUser, DefaultAllow, DefaultDeny or NotLoaded without an ACL

    def __str__(self) -> str:
        return str(self.rule)


class StandardAuthorizer:
    """Answers from the newest index of ACLs."""

    __slots__ = (
        "_allows_without_acls",
        "_decisions",
        "_index",
        "_mode",
        "_super_users",
        "acl_count",
        "check_count",
        "denial_count",
        "generation",
    )

    def __init__(
        self,
        super_users: Iterable[str] = (),
        *,
        allows_without_acls: bool = False,
        mode: Mode = Mode.ENFORCE,
    ) -> None:
        self._super_users = frozenset(super_users)
        self._allows_without_acls = allows_without_acls
        self._mode = mode
        self._index: AclIndex | None = None
        self._decisions: dict[AccessQuestion, bool] = {}
        self.generation = 0  # counts up with every change of what it answers from
        self.acl_count = 0
        self.check_count = 0
        self.denial_count = 0

    # ---- metadata ------------------------------------------------------------------------------

    def indexed(
        self, acls: Iterable[Acl], changes: Callable[[], Mapping[Acl, bool]] | None = None
    ) -> AclIndex:
        """The index of other metadata; may be called in a thread.

        `changes` tells what differs from what it decides by: True for an ACL that is there from
        now on; without it, all are taken anew.
        """
        if changes is None or self._index is None:
            return AclIndex.of(acls)
        return self._index.updated(changes())

    def decide_by(self, index: AclIndex, acl_count: int) -> None:
        """Decide by an index of so many ACLs from now on, and by nothing of before."""
        self._index = index
        self._decisions = {}
        self.generation += 1
        self.acl_count = acl_count

    # ---- questions -----------------------------------------------------------------------------

    def is_allowed(self, question: AccessQuestion, *, is_filter: bool = False) -> bool:
        """The answer to a question.

        `is_filter`: nobody has named the resource, so a denial is no event. Of the cluster: another
        right will do as well, so what ACLs say is said in every mode, and the other is asked for.
        """
        if not is_filter:
            return self._counted(question) or self._softens(question.operation)
        self.check_count += 1
        is_alternative = question.resource_type is AclResourceType.CLUSTER
        return self._decide(question) or (self._softens(question.operation) and not is_alternative)

    def is_super_user(self, principal: Principal) -> bool:
        """Whether somebody may do everything, whatever ACLs say."""
        return ":" not in principal.type and str(principal) in self._super_users

    @property
    def is_audit_only(self) -> bool:
        """Whether it allows what ACLs deny."""
        return self._mode is Mode.AUDIT_ONLY

    def denies(self, question: AccessQuestion) -> bool:
        """Whether ACLs deny something, whatever the mode."""
        return not self._decide(question)

    def rule_text(self, question: AccessQuestion) -> str:
        """Which rule decides, for people; empty where it is no single one."""
        return "" if question.name is None else str(self.explain(question))

    def forget(self) -> None:
        """Have those who keep answers ask again."""
        self.generation += 1

    def may_change_rights(self, principal: Principal, host: str) -> bool:
        """Whether somebody may ALTER the cluster, in every mode: also where denials only show."""
        cluster = AclResourceType.CLUSTER
        return self._counted(
            AccessQuestion(principal, host, AclOperation.ALTER, cluster, CLUSTER_NAME)
        )

    def explain(self, question: AccessQuestion) -> Decision:
        """What ACLs say about a resource, whatever the mode, and which rule says so.

        Not for questions without a name.
        """
        principal, host, operation, resource_type, name = question
        assert name is not None
        if self.is_super_user(principal):
            return Decision(True, "SuperUser")
        index = self._index
        if index is None:
            return Decision(False, "NotLoaded")
        if ":" in principal.type:  # would read as another type with another name
            return Decision(False, "DefaultDeny")
        acl = index.deciding(str(principal), host, operation, resource_type, name)
        if acl is not None:
            return Decision(acl.permission == AclPermission.ALLOW, acl)
        if self._allows_without_acls and not index.has_any(resource_type, name):
            return Decision(True, "DefaultAllow")
        return Decision(False, "DefaultDeny")

    def _counted(self, question: AccessQuestion) -> bool:
        """What ACLs say to something that was named, counted."""
        self.check_count += 1
        is_allowed = self._decide(question)
        self.denial_count += not is_allowed
        return is_allowed

    def _softens(self, operation: int) -> bool:
        """Whether what ACLs deny is allowed: never to act as a broker, which no client may before.

        A client that fetches as a follower moves the high watermark.
        """
        return self.is_audit_only and operation != AclOperation.CLUSTER_ACTION

    def _decide(self, question: AccessQuestion) -> bool:
        is_allowed = self._decisions.get(question)
        if is_allowed is None:
            is_allowed = self._decided(question)
            self._keep(question, is_allowed)
        return is_allowed

    def _keep(self, question: AccessQuestion, is_allowed: bool) -> None:
        decisions, name = self._decisions, question.name or ""
        if len(name) <= KEPT_LENGTH_MAX and len(question.principal.name) <= KEPT_LENGTH_MAX:
            if len(decisions) >= DECISIONS_KEPT:
                decisions.clear()
            decisions[question] = is_allowed

    def weighing(self, question: AccessQuestion) -> Iterator[None]:
        """Settle a question without a name in steps of some milliseconds, for `is_allowed`."""
        if question in self._decisions:
            return
        generation = self.generation
        is_allowed = yield from self._weighed(question)
        if self.generation == generation:
            self._keep(question, is_allowed)

    def _decided(self, question: AccessQuestion) -> bool:
        if question.name is not None:
            return self.explain(question).is_allowed
        return verdict_of(self._weighed(question))

    def _weighed(self, question: AccessQuestion) -> Generator[None, None, bool]:
        """What ACLs say to a question without a name, with pauses."""
        if self.explain(question._replace(name=_ANY_RESOURCE)).is_allowed:
            return True
        principal, host, operation, resource_type, _ = question
        if self._index is None or ":" in principal.type:
            return False
        return (
            yield from self._index.weighed_somewhere(str(principal), host, operation, resource_type)
        )

    @property
    def kept_count(self) -> int:
        """Decisions that are kept."""
        return len(self._decisions)

    # ---- metrics -------------------------------------------------------------------------------

    def samples(self) -> Iterator[Sample]:
        """ACLs, checks and denials."""
        yield Sample("barnabas_acls", "gauge", "ACLs in force.", {}, self.acl_count)
        yield Sample(
            "barnabas_authorizer_checks_total",
            "counter",
            "Checks of whether somebody may do something.",
            {},
            self.check_count,
        )
        yield Sample(
            "barnabas_authorizer_denials_total",
            "counter",
            "Checks of what was named that ACLs denied, in the mode that allows it too.",
            {},
            self.denial_count,
        )


def standard_authorizer(config: BrokerConfig) -> StandardAuthorizer | None:
    """The authorizer that the settings name; None for none."""
    if not config.authorizer_class_name:
        return None
    return StandardAuthorizer(
        config.super_users,
        allows_without_acls=config.allow_everyone_if_no_acl_found,
        mode=Mode(config.barnabas_authorizer_mode),
    )
