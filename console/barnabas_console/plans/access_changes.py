"""Changes of rights, quotas and open transactions."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass

from barnabas_client.admin.admin import Admin
from barnabas_client.admin.values.acls import AclBinding, AclFilter
from barnabas_client.admin.values.quotas import QuotaEntity
from barnabas_client.facts.access_facts import acl_sentence, word_of
from barnabas_client.facts.command_lines import command_line
from barnabas_console.plans.change import Change, ChangeRequestError, Draft, ItemResult, Row
from barnabas_console.rights.needed import AnyOf, Need
from barnabas_protocol.acl import AclOperation, AclPermission, AclResourceType, PatternType


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangeAcl(Change):
    """Give one right or take one away: exactly this one, not what a filter would also mean."""

    binding: AclBinding
    is_removal: bool
    bootstrap: str

    async def draft(self, admin: Admin) -> Draft:
        """The right, and whether it is there. Raises: the client's errors."""
        is_there = self.binding in await admin.acls.list(self._filter())
        if self.is_removal and not is_there:
            raise ChangeRequestError("there is no such ACL")
        old = "there" if is_there else None
        new = None if self.is_removal else "there"
        warnings: tuple[str, ...] = ()
        if self.is_removal or self.binding.permission is AclPermission.DENY:
            warnings = ("Whoever works by this right is refused from then on.",)
        return Draft(
            title=f"{'Delete' if self.is_removal else 'Create'} an ACL",
            rows=(Row(item=acl_sentence(self.binding), old=old, new=new),),
            observed=is_there,
            warnings=warnings,
            commands=self._commands(),
        )

    def needs(self, rows: Sequence[Row] = ()) -> tuple[AnyOf, ...]:
        """Rights are given by who may alter the cluster."""
        return ((Need.of_cluster(AclOperation.ALTER),),)

    async def carry_out(self, admin: Admin, draft: Draft) -> AsyncIterator[ItemResult]:
        """Create or delete it."""
        error: Exception | None
        if self.is_removal:
            deleted = await admin.acls.delete([self._filter()])
            error = next(iter(deleted.errors.values()), None)
        else:
            created = await admin.acls.create([self.binding])
            error = next(iter(created.errors.values()), None)
        yield ItemResult.of(acl_sentence(self.binding), error)

    def _filter(self) -> AclFilter:
        one = self.binding
        return AclFilter(
            resource_type=one.resource_type,
            resource_name=one.resource_name,
            pattern_type=one.pattern_type,
            principal=one.principal,
            host=one.host,
            operation=one.operation,
            permission=one.permission,
        )

    def _commands(self) -> tuple[str, ...]:
        """The command that does the same; `acl delete` removes by filters, which may mean more."""
        if self.is_removal:
            return ()
        one = self.binding
        names = (one.principal, word_of(one.operation))
        words = ["--resource", word_of(one.resource_type)]
        if one.resource_type is not AclResourceType.CLUSTER:
            words += ["--name", one.resource_name]
        if one.pattern_type is PatternType.PREFIXED:
            words.append("--prefixed")
        if one.permission is AclPermission.DENY:
            words.append("--deny")
        if one.host != "*":
            words += ["--host", one.host]
        return (command_line("acl create", *names, options=words, bootstrap=self.bootstrap),)


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangeQuotas(Change):
    """Set or remove quotas of one entity."""

    entity: QuotaEntity
    quotas: Mapping[str, float | None]
    bootstrap: str

    async def draft(self, admin: Admin) -> Draft:
        """Each quota, old and new; the brokers have checked it. Raises: the client's errors."""
        (await admin.quotas.alter({self.entity: self.quotas}, validate_only=True)).unwrap()
        now = (await admin.quotas.list()).get(self.entity, {})
        rows = tuple(
            Row(item=f"{self.entity}: {key}", old=now.get(key), new=value)
            for key, value in self.quotas.items()
        )
        return Draft(
            title=f"Quotas of {self.entity}",
            rows=rows,
            observed=[row.old for row in rows],
            commands=self._commands(),
        )

    def needs(self, rows: Sequence[Row] = ()) -> tuple[AnyOf, ...]:
        """Quotas are settings of the cluster."""
        return ((Need.of_cluster(AclOperation.ALTER_CONFIGS),),)

    async def carry_out(self, admin: Admin, draft: Draft) -> AsyncIterator[ItemResult]:
        """Set and remove them by one request."""
        altered = await admin.quotas.alter({self.entity: self.quotas})
        error = altered.errors.get(self.entity)
        for row in draft.rows:
            yield ItemResult.of(row.item, error)

    def _commands(self) -> tuple[str, ...]:
        """The commands that do the same: one that sets, and one that deletes."""
        whom: list[str] = []
        for kind, name in self.entity.components:
            whom += [f"--default-{kind}"] if name is None else [f"--{kind}={name}"]
        kept = [f"{key}={value:.17g}" for key, value in self.quotas.items() if value is not None]
        gone = [key for key, value in self.quotas.items() if value is None]
        return tuple(
            command_line(f"quota {verb}", *names, options=whom, bootstrap=self.bootstrap)
            for verb, names in (("set", kept), ("delete", gone))
            if names
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class FenceProducer(Change):
    """Shut out the producer of a transactional id; what it has open is aborted."""

    transactional_id: str
    bootstrap: str

    async def draft(self, admin: Admin) -> Draft:
        """What is open. Raises: the client's errors."""
        described = (await admin.transactions.describe([self.transactional_id])).unwrap()
        one = described[self.transactional_id]
        places = [str(place) for place in sorted(one.partitions)]
        return Draft(
            title=f"Abort the transaction of {self.transactional_id}",
            rows=tuple(Row(item=place, old="open", new="aborted") for place in places)
            or (Row(item=self.transactional_id, old=str(one.state), new="fenced"),),
            observed=(one.producer_id, one.producer_epoch, one.started_at_ms),
            warnings=(
                "The producer that uses this transactional id fails with its next request, and"
                " what it has written in this transaction is never read by committed readers.",
            ),
            commands=(self._command(),),
            typed=self.transactional_id,
        )

    def needs(self, rows: Sequence[Row] = ()) -> tuple[AnyOf, ...]:
        """To write by the id; of such an id brokers do not tell who may."""
        resource_type = AclResourceType.TRANSACTIONAL_ID
        return ((Need(AclOperation.WRITE, resource_type, self.transactional_id),),)

    async def carry_out(self, admin: Admin, draft: Draft) -> AsyncIterator[ItemResult]:
        """Fence it."""
        fenced = await admin.transactions.fence_producers([self.transactional_id])
        error = fenced.errors.get(self.transactional_id)
        yield ItemResult.of(self.transactional_id, error)

    def _command(self) -> str:
        name, options = self.transactional_id, ["--yes"]
        return command_line("transaction abort", name, options=options, bootstrap=self.bootstrap)
