"""What a leader knows of the followers of one partition, and what it concludes from that.

How far each follower is, when it was last caught up, and whether it may join the ISR. Pure: no
clock, no log. Not here: the high watermark and who is notified (`partition.py`).
Source: REP-1 to REP-8, KIP-497, KIP-841, KIP-903 (broker epochs).

The identity rule (decision 0013): what is known of a follower is known of one replica of one
incarnation of one broker. It is forgotten when the replica is no longer assigned, when the metadata
names another log directory for it, or when its broker has another broker epoch; and, for a replica
outside the ISR, with every new leader epoch. Nothing that was forgotten can be in a proposed ISR or
raise the high watermark: only a new fetch makes it known again.
Invariant: a state that knows a log end offset has the broker epoch that is registered.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping

from barnabas_broker.metadata.image import BrokerImage, PartitionImage
from barnabas_protocol.errors import ErrorCode, KafkaError
from barnabas_protocol.ids import ZERO_UUID

UNKNOWN = -1
NEVER_MS = -(2**62)
FindBroker = Callable[[int], BrokerImage | None]


class FollowerState:
    """One follower, as its fetches show it. Offsets are exclusive ends, -1 before its first fetch.

    A fetch offset is a log end (REP-3). Times are readings of the monotonic clock.
    """

    __slots__ = (
        "broker_epoch",
        "directory_id",
        "last_caught_up_ms",
        "last_fetch_leader_end_offset",
        "last_fetch_ms",
        "log_end_offset",
        "log_start_offset",
        "node_id",
    )

    def __init__(self, node_id: int, directory_id: bytes) -> None:
        self.node_id = node_id
        self.directory_id = directory_id  # zero while the metadata has none
        self.forget(NEVER_MS)

    def forget(self, last_caught_up_ms: int) -> None:
        """Begin anew: what was known is of another leadership or another replica (LEAD-11)."""
        self.log_end_offset = UNKNOWN
        self.log_start_offset = UNKNOWN
        self.broker_epoch = UNKNOWN
        self.last_fetch_ms = NEVER_MS
        self.last_fetch_leader_end_offset = UNKNOWN
        self.last_caught_up_ms = last_caught_up_ms

    def fetched(
        self,
        broker_epoch: int,
        fetch_offset: int,
        log_start_offset: int,
        leader_end_offset: int,
        now_ms: int,
    ) -> None:
        """Note a fetch.

        It was caught up if it has all there is now, or all there was at its fetch before (REP-6).
        """
        if fetch_offset >= leader_end_offset:
            self.was_caught_up(now_ms)
        elif fetch_offset >= self.last_fetch_leader_end_offset:
            self.was_caught_up(self.last_fetch_ms)
        self.broker_epoch = broker_epoch
        self.log_end_offset = fetch_offset
        self.log_start_offset = log_start_offset
        self.last_fetch_leader_end_offset = leader_end_offset
        self.last_fetch_ms = now_ms

    def was_caught_up(self, then_ms: int) -> None:
        """Note that it had all there was at a time."""
        if then_ms > self.last_caught_up_ms:
            self.last_caught_up_ms = then_ms

    def is_caught_up(self, leader_end_offset: int, now_ms: int, lag_ms_max: int) -> bool:
        """Whether it has all there is, or had so not longer than the limit ago (REP-6)."""
        return (
            self.log_end_offset >= leader_end_offset
            or now_ms - self.last_caught_up_ms <= lag_ms_max
        )


class FollowerStates:
    """The followers of one partition, by node; empty where this broker has the only replica."""

    __slots__ = ("_find_broker", "_states")

    def __init__(self, find_broker: FindBroker) -> None:
        self._find_broker = find_broker
        self._states: dict[int, FollowerState] = {}

    def __len__(self) -> int:
        return len(self._states)

    def __iter__(self) -> Iterator[FollowerState]:
        return iter(self._states.values())

    def get(self, node_id: int) -> FollowerState | None:
        """What is known of a node; None for one that has no replica."""
        return self._states.get(node_id)

    def assign(
        self, directories: Mapping[int, bytes], in_sync: Collection[int], now_ms: int
    ) -> list[int]:
        """Keep the states of the replicas that are the same as before; the others start anew.

        `directories` has the log directory of each follower. Returns the nodes that were assigned
        before and have another directory now. A directory that gets known is no other one.
        """
        known = self._states
        self._states = {}
        replaced = []
        for node, directory_id in directories.items():
            state = known.get(node)
            if state is None:
                state = FollowerState(node, directory_id)
            elif state.directory_id != directory_id:
                if state.directory_id != ZERO_UUID:
                    state.forget(now_ms if node in in_sync else NEVER_MS)
                    replaced.append(node)
                state.directory_id = directory_id
            self._states[node] = state
        return replaced

    def forget_other_incarnations(self, in_sync: Collection[int], now_ms: int) -> None:
        """Forget what was fetched under a broker epoch that is not the registered one."""
        for state in self:
            if state.broker_epoch != UNKNOWN:
                broker = self._find_broker(state.node_id)
                if broker is None or broker.epoch != state.broker_epoch:
                    state.forget(now_ms if state.node_id in in_sync else NEVER_MS)

    def begin_leading(self, in_sync: Iterable[int], now_ms: int) -> None:
        """Forget what was known; those in sync get the whole time to show themselves."""
        in_sync = frozenset(in_sync)
        for state in self:
            state.forget(now_ms if state.node_id in in_sync else NEVER_MS)

    def begin_leader_epoch(
        self, in_sync: Iterable[int], leader_end_offset: int, now_ms: int
    ) -> None:
        """Go on leading in the next leader epoch.

        Times begin anew. The offsets of those in sync stay known: nobody can have left the ISR and
        come back without a proposal of ours in this epoch. Those outside of it may have been
        removed and assigned again meanwhile, with an empty log: nothing of them stays known.
        """
        in_sync = frozenset(in_sync)
        for state in self:
            if state.node_id not in in_sync:
                state.forget(NEVER_MS)
                continue
            state.last_caught_up_ms = state.last_fetch_ms = now_ms
            state.last_fetch_leader_end_offset = leader_end_offset

    def excuse(self, in_sync: Iterable[int], now_ms: int) -> None:
        """Give those in sync the whole time anew: they could not fetch."""
        for node_id in in_sync:
            state = self._states.get(node_id)
            if state is not None:
                state.was_caught_up(now_ms)

    def fetching(self, node_id: int, broker_epoch: int) -> FollowerState:
        """The state of a node that fetches.

        Raises: KafkaError 75 where it has no replica that we know of, and those of
        `check_broker_epoch`.
        """
        state = self._states.get(node_id)
        if state is None:
            raise KafkaError(
                ErrorCode.UNKNOWN_LEADER_EPOCH, f"no replica on broker {node_id} is known"
            )
        check_broker_epoch(self._find_broker(node_id), node_id, broker_epoch)
        return state

    def is_eligible(self, state: FollowerState) -> bool:
        """Whether the metadata allows it into the ISR (REP-7), as the controller looks at it.

        Not fenced, not shutting down, of the incarnation that fetched, and in a directory that
        works.
        """
        broker = self._find_broker(state.node_id)
        return (
            broker is not None
            and not broker.fenced
            and not broker.is_shutting_down
            and state.broker_epoch == broker.epoch
            and (
                state.directory_id == ZERO_UUID
                or not broker.directories
                or state.directory_id in broker.directories
            )
        )

    def lowest_end_offset(
        self,
        leader_end_offset: int,
        in_sync: frozenset[int],
        high_watermark: int,
        now_ms: Callable[[], int],
        lag_ms_max: Callable[[], int],
    ) -> int:
        """The end of what all have that count for the high watermark (REP-1).

        Those are the maximal ISR, the leader's end included, and whoever is about to join it: it
        has what is committed, is caught up and may (REP-2). Otherwise a busy partition's watermark
        could run ahead of a follower for ever, and keep it out.
        """
        end_offset = leader_end_offset
        for state in self._states.values():
            if state.log_end_offset >= end_offset:
                continue
            if state.node_id in in_sync or (
                state.log_end_offset >= high_watermark
                and now_ms() - state.last_caught_up_ms <= lag_ms_max()
                and self.is_eligible(state)
            ):
                end_offset = state.log_end_offset
        return end_offset

    def joining(
        self,
        in_sync: Iterable[int],
        committed_offset: int,
        leader_end_offset: int,
        now_ms: int,
        lag_ms_max: int,
    ) -> list[int]:
        """The nodes outside of the ISR that belong into it by now (REP-7).

        They have all that is committed, `committed_offset`, and where the present leader epoch
        begins, and would not lag behind as members: one that fetches no more could otherwise join
        again and again, and hold the high watermark where it is.
        """
        return [
            state.node_id
            for state in self._states.values()
            if state.node_id not in in_sync
            and state.log_end_offset >= committed_offset
            and state.is_caught_up(leader_end_offset, now_ms, lag_ms_max)
            and self.is_eligible(state)
        ]

    def lagging(
        self, in_sync: Iterable[int], leader_end_offset: int, now_ms: int, lag_ms_max: int
    ) -> list[int]:
        """The nodes of the ISR that were not caught up for longer than the limit (REP-6)."""
        found = []
        for node_id in in_sync:
            state = self._states.get(node_id)
            if state is not None and not state.is_caught_up(leader_end_offset, now_ms, lag_ms_max):
                found.append(node_id)
        return found

    def lowest_start_offset(self, leader_start_offset: int) -> int:
        """The log start that every live replica has reached: the low watermark (SEG-13)."""
        offset = leader_start_offset
        for state in self._states.values():
            broker = self._find_broker(state.node_id)
            if broker is not None and not broker.fenced:
                offset = min(offset, state.log_start_offset)
        return offset

    def broker_epoch(self, node_id: int) -> int:
        """The incarnation of a node that fetched last, -1 if not known."""
        state = self._states.get(node_id)
        return UNKNOWN if state is None else state.broker_epoch


def check_broker_epoch(broker: BrokerImage | None, node_id: int, broker_epoch: int) -> None:
    """Let only the registered incarnation of a broker pass (KIP-903).

    Raises: KafkaError 75 for one that is not known here, which newer metadata may change; 6 for an
    earlier one, or none.
    """
    if broker is None or broker_epoch > broker.epoch:
        raise KafkaError(
            ErrorCode.UNKNOWN_LEADER_EPOCH, f"broker {node_id} has another broker epoch here"
        )
    if broker_epoch < broker.epoch:
        raise KafkaError(
            ErrorCode.NOT_LEADER_OR_FOLLOWER, f"broker {node_id} has a newer broker epoch"
        )


def follower_directories(image: PartitionImage, leader: int) -> dict[int, bytes]:
    """The nodes with a replica other than the leader's, and its log directory: zero if unknown."""
    directories = image.directories or (ZERO_UUID,) * len(image.replicas)
    return {
        node: directory_id
        for node, directory_id in zip(image.replicas, directories, strict=True)
        if node != leader
    }
