"""Which replica of the operator acts: the holder of one Lease.

Rules (the operator reference, section 6): a write is a compare-and-swap on the version that was
read; a Lease has expired when *this* process has not seen it change for its duration, whatever
times are written in it; the holder stops acting `renew_deadline` after its last successful write
was *sent*, which each write of the operator checks, so a loop that stalls fences itself; a lost
reply or a conflict is settled by reading what is stored; leadership ends in memory before the Lease
is released.

Not here: waiting tasks and what a leader does (`operator_process`). The brokers' arbiter is a Lease
as well, with a compare-and-swap of its own (`barnabas_broker.arbiter.kubernetes_lease`). They have
no home in common: the operator may not import the broker, the client has nothing of Kubernetes, and
`barnabas_protocol` has no I/O. Nor do they do the same: the arbiter's swap must tell an unknown
outcome from a conflict and never expires; this one elects by what it has seen and for how long.
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from barnabas_operator.kubernetes.api import (
    ConflictError,
    KubernetesApi,
    KubernetesError,
    NotFoundError,
    Object,
)
from barnabas_operator.kubernetes.kinds import LEASE
from barnabas_operator.kubernetes.objects import resource_version_of

logger = logging.getLogger(__name__)


class NotLeaderError(KubernetesError):
    """This replica may not write: another one may be acting."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaseTimes:
    """In seconds: retry < renew deadline < duration."""

    duration_seconds: float = 15.0
    renew_deadline_seconds: float = 10.0
    retry_seconds: float = 2.0


class LeaderLease:
    """One candidate; `identity` must be another one after each start of the process."""

    def __init__(
        self,
        api: KubernetesApi,
        *,
        namespace: str,
        name: str,
        identity: str,
        times: LeaseTimes | None = None,
        now: Callable[[], float] | None = None,
        chance: random.Random | None = None,
    ) -> None:
        """Take an API that may write without being leader; `now` is monotonic, in seconds."""
        self.identity = identity
        self._api = api
        self._namespace = namespace
        self._name = name
        self._times = times or LeaseTimes()
        self._now = now or (lambda: asyncio.get_running_loop().time())
        self._chance = chance or random.Random()
        self._acts_until: float | None = None
        self._lease: Object | None = None
        self._seen: Mapping[str, Any] | None = None
        self._seen_at = 0.0
        # What was last sent and when, for telling whether it was stored although no answer came.
        self._tried: tuple[Mapping[str, Any], float] | None = None

    @property
    def is_leader(self) -> bool:
        """Whether this replica may act at this moment."""
        return self._left_seconds() > 0

    def check(self) -> None:
        """Let a write through. Raises: NotLeaderError."""
        if not self.is_leader:
            raise NotLeaderError(f"{self.identity} does not hold Lease {self._name}")

    async def acquire(self) -> None:
        """Return when this replica leads."""
        while True:
            if await self._attempt(self._try_to_acquire):
                break
            # Slightly longer than the holder, so that its renewals come first.
            await asyncio.sleep(self._pause_seconds() * 1.1)
        logger.info("leadership acquired: %s", self.identity)

    async def keep(self) -> None:
        """Renew until leadership is lost; then return."""
        while (left := self._left_seconds()) > 0:
            await asyncio.sleep(min(self._pause_seconds(), left))
            try:
                async with asyncio.timeout(self._left_seconds()):
                    await self._attempt(self._try_to_renew)
            except TimeoutError:
                break
        self._acts_until = None
        logger.warning("leadership lost: %s", self.identity)

    async def release(self) -> None:
        """Stop leading, and let another replica begin at once."""
        was_leader, self._acts_until = self.is_leader, None
        if not was_leader or self._lease is None:
            return
        spec = {**self._lease["spec"], "holderIdentity": None, "leaseDurationSeconds": 1}
        try:
            await self._write(spec)
        except KubernetesError as error:
            logger.info("Lease %s expires by itself: %s", self._name, error)

    async def _attempt(self, attempt: Callable[[], Any]) -> bool:
        """Whether this replica leads after the attempt; a failure of the store is not a loss."""
        try:
            await attempt()
        except KubernetesError as error:
            logger.warning("Lease request failed: %s: %s", self._name, error)
        return self.is_leader

    async def _try_to_acquire(self) -> None:
        lease = await self._read()
        if lease is None:
            await self._send(self._record(transitions=0, acquired=_micro_time()), is_new=True)
            return
        spec = lease.get("spec") or {}
        if spec.get("holderIdentity") == self.identity:
            # An earlier try had succeeded without our hearing of it, perhaps long ago.
            if not self._is_ours(spec) or not self.is_leader:
                await self._renew()
            return
        if spec.get("holderIdentity") and not self._has_expired(spec):
            return
        transitions = int(spec.get("leaseTransitions") or 0) + 1
        await self._send(self._record(transitions=transitions, acquired=_micro_time()))

    async def _try_to_renew(self) -> None:
        assert self._lease is not None
        sent_version = resource_version_of(self._lease)
        try:
            await self._renew()
        except (ConflictError, NotFoundError) as error:
            lease = await self._read()
            spec = (lease or {}).get("spec") or {}
            if lease is None or spec.get("holderIdentity") != self.identity:
                self._lose(f"it is held by {spec.get('holderIdentity') or 'nobody'}")
            elif self._is_ours(spec):
                return
            elif resource_version_of(lease) == sent_version:
                self._lose(str(error))
            else:
                # Somebody touched our Lease without taking it: once more on what it is now.
                await self._renew()

    async def _renew(self) -> None:
        assert self._lease is not None
        spec = self._lease["spec"]
        await self._send(
            self._record(
                transitions=int(spec.get("leaseTransitions") or 0),
                acquired=str(spec.get("acquireTime") or _micro_time()),
            )
        )

    async def _send(self, spec: Mapping[str, Any], *, is_new: bool = False) -> None:
        """Write the record; leadership counts from before it was sent."""
        sent_at = self._now()
        self._tried = (spec, sent_at)
        if is_new:
            metadata = {"name": self._name, "namespace": self._namespace}
            lease = await self._api.create(
                {
                    "apiVersion": LEASE.api_version,
                    "kind": LEASE.kind,
                    "metadata": metadata,
                    "spec": dict(spec),
                }
            )
            self._note(lease)
        else:
            await self._write(spec)
        self._lead_from(sent_at)

    async def _write(self, spec: Mapping[str, Any]) -> None:
        assert self._lease is not None
        version = {"resourceVersion": resource_version_of(self._lease)}
        patch = {"metadata": version, "spec": dict(spec)}
        self._note(await self._api.patch(LEASE, self._namespace, self._name, patch))

    async def _read(self) -> Object | None:
        lease = await self._api.get(LEASE, self._namespace, self._name)
        self._note(lease)
        return lease

    def _note(self, lease: Object | None) -> None:
        """Remember the Lease, and when its record was last seen to change."""
        self._lease = lease
        spec = None if lease is None else dict(lease.get("spec") or {})
        if spec != self._seen:
            self._seen = spec
            self._seen_at = self._now()

    def _is_ours(self, spec: Mapping[str, Any]) -> bool:
        """Whether what is stored is what was last sent: then that had succeeded."""
        if self._tried is None:
            return False
        tried, sent_at = self._tried
        if any(spec.get(key) != value for key, value in tried.items()):
            return False
        self._lead_from(sent_at)
        return True

    def _has_expired(self, spec: Mapping[str, Any]) -> bool:
        duration = float(spec.get("leaseDurationSeconds") or self._times.duration_seconds)
        return self._now() - self._seen_at > duration

    def _lead_from(self, sent_at: float) -> None:
        self._acts_until = sent_at + self._times.renew_deadline_seconds

    def _left_seconds(self) -> float:
        return 0.0 if self._acts_until is None else self._acts_until - self._now()

    def _lose(self, why: str) -> None:
        logger.warning("Lease lost: %s, Lease %s: %s", self.identity, self._name, why)
        self._acts_until = None

    def _record(self, *, transitions: int, acquired: str) -> dict[str, Any]:
        return {
            "holderIdentity": self.identity,
            "leaseDurationSeconds": max(1, round(self._times.duration_seconds)),
            "acquireTime": acquired,
            "renewTime": _micro_time(),
            "leaseTransitions": transitions,
        }

    def _pause_seconds(self) -> float:
        return self._times.retry_seconds * (0.9 + 0.2 * self._chance.random())


def _micro_time() -> str:
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
