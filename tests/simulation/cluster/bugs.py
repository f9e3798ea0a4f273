"""Known bugs, planted one at a time, to see that the stories find them.

Each replaces one decision of the real code while it is planted; nothing of it is in the broker.
"""

import asyncio
import json
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from typing import Any, NamedTuple
from unittest.mock import patch

from barnabas_broker.arbiter import local_file
from barnabas_broker.arbiter.arbiter import ArbiterError, ArbiterRecord, Stored, SwapOutcome
from barnabas_broker.arbiter.local_file import LocalFileArbiter
from barnabas_broker.controller import partition_change
from barnabas_broker.controller.partition_change import Assignment, Completed
from barnabas_broker.coordinator.group.commits import OffsetCommands
from barnabas_broker.coordinator.group.coordinator import GroupCoordinator
from barnabas_broker.coordinator.transaction.markers import MarkerSender
from barnabas_broker.coordinator.transaction.shard import TransactionShard
from barnabas_broker.coordinator.transaction.state import Transaction
from barnabas_broker.env.disk import Disk
from barnabas_broker.log import retention
from barnabas_broker.log.cleaner.offset_map import OffsetMap, _short
from barnabas_broker.log.manager import departed_logs
from barnabas_broker.log.partition_log import PartitionLog
from barnabas_broker.log.producer_state import ProducerState
from barnabas_broker.log.properties_files import BootMarker
from barnabas_broker.log.recovery import segment_recovery
from barnabas_broker.metadata.metadata_log import (
    METADATA_PARTITION,
    METADATA_TOPIC_ID,
    metadata_log_config,
)
from barnabas_broker.metadata.metadata_log_storage import MetadataLogStorage
from barnabas_broker.metadata.quorum.arbiter_access import ArbiterAccess
from barnabas_broker.metadata.quorum.metadata_quorum import MetadataQuorum
from barnabas_broker.metadata.quorum.promise_file import PromiseFile
from barnabas_broker.replication.committed_writer import CommittedWriter
from barnabas_broker.replication.follower.fetch_plan import (
    FetchPlan,
    PartitionFetchState,
    PartitionResponse,
)
from barnabas_broker.replication.follower.follower_append import FollowerAppend, Step
from barnabas_broker.replication.follower.replica_fetcher import ReplicaFetcher
from barnabas_broker.replication.leader.fetch_session import FetchPartition
from barnabas_broker.replication.leader.follower_states import (
    NEVER_MS,
    FollowerState,
    FollowerStates,
)
from barnabas_broker.replication.partition import Partition
from barnabas_broker.security.acl.index import AclIndex
from barnabas_broker.security.acl.standard_authorizer import StandardAuthorizer
from barnabas_broker.share.dead_letter_writer import TopicDeadLetterWriter
from barnabas_broker.share.loaded_share_partition import LoadedSharePartition
from barnabas_broker.share.persister import StateBatch
from barnabas_broker.share.record_states import RecordState
from barnabas_broker.share.share_partition import SharePartition
from barnabas_broker.share.share_settings import ShareSettings
from barnabas_broker.share.transition import StateWrite
from barnabas_protocol.errors import ErrorCode
from barnabas_protocol.ids import ZERO_UUID, TopicPartition
from barnabas_protocol.messages import fetch
from barnabas_protocol.records.batch import BatchHeader
from tests.simulation import transaction_bugs
from tests.simulation.cluster.plan import Feature, Plan
from tests.support import simulated_disk

_start = FollowerAppend.start
_drop = FetchPlan._drop
_take = ReplicaFetcher._take
_propose = Partition._propose
_apply = PartitionLog._apply
_delete_topics = OffsetCommands.delete_topics
_start_leading = Partition.start_leading
_take_history = MetadataQuorum._take_history
_write_one = LoadedSharePartition._write_one
_load = SharePartition.load
_decide_by = StandardAuthorizer.decide_by


class Bug(NamedTuple):
    """What is wrong, and what is replaced: owner, name and the wrong thing."""

    what: str
    replacements: tuple[tuple[Any, str, Any], ...]
    # Features and faults without which nothing of what is replaced makes a difference.
    needs: tuple[str, ...] = ()

    def may_show(self, plan: Plan) -> bool:
        """Whether a story can find it at all; one that cannot need not be told."""
        faults = {event.fault for event in plan.events}
        return all(need in plan.features or need in faults for need in self.needs)


def _start_at_the_high_watermark(self: FollowerAppend, followed: PartitionFetchState) -> Step:
    partition = self._replica(followed)
    if partition is not None and partition.log.log_end_offset > partition.log.high_watermark:
        partition.log.truncate_to(partition.log.high_watermark)
    return _start(self, followed)


def _own_end(self: FollowerStates, leader_end_offset: int, *_: object) -> int:
    return leader_end_offset


def _propose_and_believe(self: Partition, isr: tuple[int, ...]) -> None:
    _propose(self, isr)
    if self.proposed_isr is not None:
        self.maximal_isr = frozenset(self.proposed_isr)


def _note_nothing(self: FollowerAppend, partition: Partition) -> None:
    """As if the page cache were the disk."""


def _apply_as_leader_only(
    self: PartitionLog, header: BatchHeader, batch: memoryview, *, is_leader: bool
) -> None:
    with ExitStack() as patches:
        if not is_leader:
            patches.enter_context(patch.object(ProducerState, "append", _forget_producer))
        _apply(self, header, batch, is_leader=is_leader)


def _forget_producer(
    self: ProducerState, header: BatchHeader, base_offset: int | None = None
) -> None:
    """As if no producer could ever repeat itself."""


def _admit_all(self: OffsetCommands, *_: object) -> None:
    """As if no member were ever replaced."""


# What was confirmed and mended: each undoes the mend.


def _assign_keeping(
    self: FollowerStates, directories: Mapping[int, bytes], in_sync: object, now_ms: int
) -> list[int]:
    known, self._states = self._states, {}
    for node, directory_id in directories.items():
        state = self._states[node] = known.get(node) or FollowerState(node, directory_id)
        state.directory_id = directory_id
    return []


def _begin_epoch_keeping(
    self: FollowerStates, in_sync: Iterable[int], leader_end_offset: int, now_ms: int
) -> None:
    in_sync = frozenset(in_sync)
    for state in self:
        then_ms = now_ms if state.node_id in in_sync else NEVER_MS
        state.last_caught_up_ms = state.last_fetch_ms = then_ms
        state.last_fetch_leader_end_offset = leader_end_offset


def _forget_nobody(self: FollowerStates, *_: object) -> None:
    """As if an incarnation were for ever."""


METADATA_SEGMENT_BYTES = 8 * 1024 * 1024


async def _load_anywhere(storage: MetadataLogStorage) -> PartitionLog:
    """Not from `metadata.log.dir`, which the voter names."""
    logs = storage.logs
    await logs.disk.run(logs.open_directories)
    return await logs.load_partition(
        METADATA_PARTITION,
        METADATA_TOPIC_ID,
        metadata_log_config(METADATA_SEGMENT_BYTES),
        logs.online_directories()[0],
    )


def _throw_away(disk: Disk, random: object, path: str, *_: object, **__: object) -> str:
    disk.remove_tree(path)
    return path


async def _abandon(work: "asyncio.Future[Any]", try_cancel: Callable[[], bool]) -> Any:
    try:
        return await asyncio.shield(work)
    except asyncio.CancelledError:
        try_cancel()
        work.add_done_callback(lambda done: done.cancelled() or done.exception())
        raise


async def _swap_with_a_lock_of_the_loop(
    self: LocalFileArbiter, expected_token: int, record: ArbiterRecord
) -> SwapOutcome:
    """Whoever is cancelled lets go of the lock, whatever its thread does."""
    deadline_ms = self._clock.monotonic_ms() + local_file.LOCK_WAIT_MS_MAX
    while True:
        try:
            lock = self._disk.lock(f"{self._path}.lock")
            break
        except BlockingIOError:
            if self._clock.monotonic_ms() >= deadline_ms:
                return SwapOutcome.UNKNOWN
        await asyncio.sleep(0.005)
    try:
        return await self._disk.run(self._swap, expected_token, record)
    except (OSError, ArbiterError):
        return SwapOutcome.UNKNOWN
    finally:
        lock.close()


async def _take_any_history(self: MetadataQuorum, record: ArbiterRecord) -> bool:
    """As if whoever founds the cluster again had what this node has."""
    own = self._history.ids[:1]
    return await _take_history(self, record._replace(histories=(*record.histories, *own)))


async def _clean_up_one_after_the_other(
    self: GroupCoordinator, deleted: Mapping[str, bytes]
) -> None:
    for partition in list(self.runtime.states()):
        await self._forget_topics(partition, deleted)


def _remove_by_name(self: OffsetCommands, deleted: Mapping[str, bytes]) -> Any:
    return _delete_topics(self, dict.fromkeys(deleted, ZERO_UUID))


def _lead_and_sync(self: Partition, *, is_new_leader: bool = True) -> None:
    _start_leading(self, is_new_leader=is_new_leader)
    self.log.disk.sync_directory(self.log.directory)


def _believe_any_boot(self: BootMarker) -> int:
    if not self._disk.exists(self.path):
        return -1
    return int(json.loads(self._disk.read_bytes(self.path))["brokerEpoch"])


# New ones, all over the broker.


def _join_early(
    self: FollowerStates,
    in_sync: Iterable[int],
    committed_offset: int,
    leader_end_offset: int,
    now_ms: int,
    lag_ms_max: int,
) -> list[int]:
    in_sync = frozenset(in_sync)
    return [s.node_id for s in self if s.node_id not in in_sync and self.is_eligible(s)]


def _replica_whatever_it_is(
    self: FollowerAppend, followed: PartitionFetchState
) -> Partition | None:
    partition = self._find(followed.topic_partition)
    return None if partition is None or partition.log.is_offline else partition


def _drop_and_remember(
    self: FetchPlan, topic_partition: TopicPartition
) -> PartitionFetchState | None:
    dropped = _drop(self, topic_partition)
    if dropped is not None:
        # What is under way for it are answers of requests up to this one.
        self.__dict__.setdefault("dropped", {})[dropped.key] = dropped, self._number
    return dropped


async def _take_whatever_was_asked(
    self: ReplicaFetcher, number: int, response: fetch.FetchResponse
) -> None:
    dropped = self.plan.__dict__.get("dropped", {})
    for topic in response.responses:
        for data in topic.partitions:
            key = (topic.topic_id, data.partition_index)
            followed, last_number = dropped.get(key, (None, 0))
            if followed is not None and 0 < followed.sent_in <= number <= last_number:
                self._target.take(PartitionResponse(followed, data, is_late=False))
    await _take(self, number, response)


def _diverge_half(
    self: FollowerAppend, partition: Partition, followed: PartitionFetchState, data: Any
) -> Step:
    log = partition.log
    middle = (log.log_end_offset + data.diverging_epoch.end_offset) // 2
    self._truncate(log, max(middle, log.high_watermark))
    followed.stand_at(log.log_end_offset, data.diverging_epoch.epoch, log.log_start_offset)
    return Step.GO_ON


def _ask_the_same(self: FetchPartition, other: FetchPartition) -> None:
    """As if the session had the last word."""


def _check_nothing(*_: object) -> None:
    """Whatever is there is taken for a batch."""


def _all_but_the_last(segments: Sequence[Any], high_watermark: int) -> list[Any]:
    return list(segments[:-1])


def _is_no_longer_newest(self: OffsetMap, key: bytes, offset: int) -> bool:
    return offset < self._offsets.get(_short(key), 1 << 62)


async def _wait_for_nothing(self: CommittedWriter, topic_partition: Any, end_offset: int) -> None:
    """As if what is appended were committed."""


async def _append_only(self: CommittedWriter, topic_partition: Any, batch: bytes) -> int:
    partition = self._replicas.find(topic_partition)
    info = partition.append(memoryview(bytearray(batch)), -1, self._clock.wall_ms(), internal=True)
    await asyncio.sleep(0)
    return info.last_offset


def _complete_at_once(assignment: Assignment, isr: Collection[int]) -> Completed | None:
    replicas, _, removing = assignment
    remaining = tuple(node for node in replicas if node not in removing)
    return Completed(remaining, tuple(n for n in isr if n in remaining) or remaining[:1])


async def _swap_and_believe(self: ArbiterAccess) -> None:
    while self._swap is not None or self._is_wanted:
        self._is_wanted = False
        if self._swap is not None:
            (token, record), self._swap = self._swap, None
            outcome = await self._arbiter.compare_and_swap(token, record)
            if outcome is SwapOutcome.UNKNOWN:
                await self._on_read(Stored(record, token + 1))
                continue
        try:
            stored = await self._arbiter.read()
        except ArbiterError:
            continue
        await self._on_read(stored)


async def _promise_only(self: PromiseFile, controller_epoch: int) -> None:
    """A promise that nobody writes down."""


def _never_under(self: Partition) -> bool:
    return False


BUGS: dict[str, Bug] = {
    "truncate_to_high_watermark": Bug(
        "a follower cuts its log to its high watermark, which may be stale (KIP-101)",
        ((FollowerAppend, "start", _start_at_the_high_watermark),),
    ),
    "leader_commits_alone": Bug(
        "the high watermark does not wait for the followers in the ISR",
        ((FollowerStates, "lowest_end_offset", _own_end),),
    ),
    "isr_before_it_is_committed": Bug(
        "a leader counts the ISR that it has asked for, not the maximal one (KIP-497)",
        ((Partition, "_propose", _propose_and_believe),),
    ),
    "acknowledge_before_fsync": Bug(
        "a follower fetches on, and so acknowledges, before its disk has what it must have",
        ((FollowerAppend, "_note_unsynced", _note_nothing),),
        ("lose_power",),
    ),
    "producers_of_the_leader_only": Bug(
        "a follower does not note the sequences of what it appends (TXL-8)",
        ((PartitionLog, "_apply", _apply_as_leader_only),),
    ),
    "commits_of_any_generation": Bug(
        "a coordinator takes commits of members that have been replaced (GRP-19)",
        ((OffsetCommands, "_admit", _admit_all),),
        (Feature.MEMBERS,),
    ),
    # What was confirmed and mended.
    "stale_follower": Bug(
        "a leader remembers of a replica what outlives it (REP-7)",
        (
            (FollowerStates, "assign", _assign_keeping),
            (FollowerStates, "begin_leader_epoch", _begin_epoch_keeping),
            (FollowerStates, "forget_other_incarnations", _forget_nobody),
        ),
        (Feature.REASSIGNMENTS,),
    ),
    "metadata_log_anywhere": Bug(
        "the metadata log is put elsewhere than where its voter says",
        ((MetadataLogStorage, "load", _load_anywhere),),
        (Feature.DIRECTORIES, Feature.METADATA_DIRECTORY, "lose_a_directory"),
    ),
    "strays_removed": Bug(
        "what the metadata does not assign is thrown away",
        ((departed_logs, "put_aside", _throw_away),),
    ),
    "threads_abandoned": Bug(
        "whoever is cancelled lets go of what a thread still works on",
        ((simulated_disk, "outlast", _abandon),),
    ),
    "file_lock_of_the_loop": Bug(
        "whoever is cancelled lets go of the arbiter's lock while its thread still swaps",
        (
            (simulated_disk, "outlast", _abandon),
            (LocalFileArbiter, "compare_and_swap", _swap_with_a_lock_of_the_loop),
        ),
        (Feature.ARBITER_FILE, "slow_the_arbiter"),
    ),
    "second_founding": Bug(
        "a broker with a history follows a founder that does not have it (rule 10)",
        ((MetadataQuorum, "_take_history", _take_any_history),),
        (Feature.CLUSTER_ID, Feature.RECORD_LOST, "lose_the_record"),
    ),
    "commits_removed_by_name": Bug(
        "the clean-up of a deleted topic removes commits of the next one of its name (OFS-10)",
        (
            (OffsetCommands, "delete_topics", _remove_by_name),
            (GroupCoordinator, "on_topics_deleted", _clean_up_one_after_the_other),
        ),
        (Feature.NAMES_AGAIN,),
    ),
    "fsync_on_the_loop": Bug(
        "a folder is synced on the event loop when a leadership begins",
        ((Partition, "start_leading", _lead_and_sync),),
    ),
    "power_loss_taken_for_a_kill": Bug(
        "a broker whose machine lost power claims to have all that it had (KIP-966)",
        ((BootMarker, "broker_epoch", _believe_any_boot),),
        (Feature.ELIGIBLE, "lose_power"),
    ),
    # New ones.
    "commit_below_min_isr": Bug(
        "the high watermark moves while too few are in sync (KIP-966, REP-2)",
        ((Partition, "is_under_min_isr", property(_never_under)),),
        (Feature.ELIGIBLE,),
    ),
    "join_before_caught_up": Bug(
        "a follower joins the ISR before it has what is committed (REP-7)",
        ((FollowerStates, "joining", _join_early),),
    ),
    "answers_of_other_epochs": Bug(
        "a follower takes what it has asked for, whoever leads in which epoch by now",
        (
            (FollowerAppend, "_replica", _replica_whatever_it_is),
            (FetchPlan, "_drop", _drop_and_remember),
            (ReplicaFetcher, "_take", _take_whatever_was_asked),
        ),
    ),
    "half_a_truncation": Bug(
        "a follower that diverges cuts half of what it must, and says it is with its leader",
        ((FollowerAppend, "_diverge", _diverge_half),),
    ),
    "session_keeps_its_offset": Bug(
        "a fetch session does not take over what a partition is asked from by now",
        ((FetchPartition, "take_over", _ask_the_same),),
    ),
    "no_check_in_recovery": Bug(
        "recovery takes what it finds for batches (REC-2)",
        ((segment_recovery, "_check", _check_nothing),),
        ("lose_power",),
    ),
    "retention_above_high_watermark": Bug(
        "retention deletes what is not committed yet (SEG-11)",
        ((retention, "_below_high_watermark", _all_but_the_last),),
        (Feature.RETENTION,),
    ),
    "compaction_keeps_the_oldest": Bug(
        "compaction drops the newest record of a key, not the older ones",
        ((OffsetMap, "is_newest", _is_no_longer_newest),),
        (Feature.COMPACTION,),
    ),
    "coordinator_answers_early": Bug(
        "a coordinator answers when its record is appended, not when it is committed",
        (
            (CommittedWriter, "append", _append_only),
            (CommittedWriter, "wait_committed", _wait_for_nothing),
        ),
    ),
    "reassigned_before_in_sync": Bug(
        "a reassignment is over before the new replicas are in sync (LEAD-10)",
        ((partition_change, "completed", _complete_at_once),),
        (Feature.REASSIGNMENTS,),
    ),
    "swap_without_an_answer_won": Bug(
        "a swap without an answer counts as won (rule 7 of the arbiter)",
        ((ArbiterAccess, "_run", _swap_and_believe),),
    ),
    "promise_not_written": Bug(
        "a member does not write its promise down before it answers",
        ((PromiseFile, "write", _promise_only),),
    ),
}


# Share groups.


async def _write_some(self: LoadedSharePartition, write: StateWrite) -> ErrorCode:
    if write.start_offset % 2:
        return await _write_one(self, write)
    self.records.finish_write(write, None)
    self.changed()
    return ErrorCode.NONE


async def _lose_dead_letters(self: TopicDeadLetterWriter, *_: object, **__: object) -> None:
    """As if they were written."""


def _load_as_archived(
    start_offset: int, batches: Iterable[StateBatch], settings: ShareSettings
) -> SharePartition:
    archived = [
        replace(one, delivery_state=int(RecordState.ARCHIVED))
        if one.delivery_state == RecordState.ARCHIVING
        else one
        for one in batches
    ]
    return _load(start_offset, archived, settings)


BUGS["acceptance_not_written"] = Bug(
    "a leader of share partitions answers acknowledgements that it has not had written (SHR-17)",
    ((LoadedSharePartition, "_write_one", _write_some),),
    (Feature.QUEUE,),
)
BUGS["dead_letters_not_written"] = Bug(
    "what is Archiving is archived without a dead letter (SHR-36)",
    ((TopicDeadLetterWriter, "write", _lose_dead_letters),),
    (Feature.QUEUE,),
)
BUGS["archiving_forgotten_on_load"] = Bug(
    "a new leader takes what another has left Archiving for Archived (SHR-36)",
    ((SharePartition, "load", _load_as_archived),),
    (Feature.QUEUE, "kill"),
)

# Transactions.

for _name, _what, _replacements in (
    (
        "late_end",
        "the end of an earlier transaction ends the one that is open (KIP-890)",
        ((TransactionShard, "end", transaction_bugs.end_of_whatever_is_open),),
    ),
    (
        "late_add",
        "a partition of an earlier transaction gets into the one that is open (KIP-890)",
        (
            (TransactionShard, "add_partitions", transaction_bugs.add_to_whatever_is_open),
            (TransactionShard, "verify", transaction_bugs.verify_by_whatever_is_open),
        ),
    ),
    (
        "marker_dropped",
        "a coordinator forgets a partition of a transaction that it ends (TXN-6)",
        ((MarkerSender, "send", transaction_bugs.send_to_all_but_one),),
    ),
    (
        "aborts_commit",
        "the markers of an abort say commit (TXN-5)",
        ((MarkerSender, "send", transaction_bugs.send_commits),),
    ),
    (
        "read_past_the_last_stable_offset",
        "readers of committed records read to the high watermark (TXL-7)",
        ((Partition, "limit_offset", transaction_bugs.limit_at_high_watermark),),
    ),
    (
        "producer_not_fenced",
        "who begins with a transactional id does not fence the one before (TXN-2)",
        ((Transaction, "with_next_epoch", transaction_bugs.with_same_epoch),),
    ),
):
    BUGS[_name] = Bug(_what, _replacements, (Feature.TRANSACTIONS,))


# Rights.


def _decide_by_both(self: StandardAuthorizer, index: AclIndex, acl_count: int) -> None:
    generation = self.generation
    _decide_by(self, index, acl_count)
    self.generation = generation


BUGS["rights_remembered_by_connections"] = Bug(
    "a connection goes by what its user was allowed before rights were taken away (SEC-44)",
    ((StandardAuthorizer, "decide_by", _decide_by_both),),
    (Feature.RIGHTS, Feature.ELIGIBLE),
)


@contextmanager
def planted(name: str) -> Iterator[None]:
    """The code with one rule broken."""
    with ExitStack() as patches:
        for owner, attribute, replacement in BUGS[name].replacements:
            patches.enter_context(patch.object(owner, attribute, replacement))
        yield
