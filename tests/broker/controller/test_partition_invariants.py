"""Any sequence of commands keeps the invariants of partitions (REP-19, LEAD-6): a random walk.

Besides the image the walk knows which replicas have every committed record: all of the ISR while
there is a leader; with eligible leader replicas, those who left it as well, as long as it is too
small for anything to be committed. A clean election must never choose another one.
"""

from collections.abc import Sequence
from dataclasses import replace

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from barnabas_broker.controller import (
    brokers,
    configs,
    elections,
    features,
    isr,
    leader_balance,
    reassignment,
)
from barnabas_broker.controller.brokers import Registration
from barnabas_broker.controller.configs import ConfigChange, ResourceChange
from barnabas_broker.controller.eligible_replicas import MinInSync
from barnabas_broker.controller.features import FeatureChange, FeatureRange
from barnabas_broker.controller.partition_change import Assignment, Candidates, completed
from barnabas_broker.controller.reassignment import Reassigned
from barnabas_broker.metadata.image import (
    NO_LEADER,
    RESOURCE_TOPIC,
    MetadataImage,
    PartitionImage,
)
from barnabas_broker.metadata.records import (
    ConfigRecord,
    MetadataRecord,
    PartitionRecord,
    SupportedFeature,
)
from barnabas_protocol.errors import ErrorCode
from barnabas_protocol.ids import ZERO_UUID
from barnabas_protocol.messages.alter_partition import (
    AlterPartitionRequestPartitionData,
    AlterPartitionRequestTopicData,
    BrokerState,
)
from tests.support.partition_images import (
    SETTINGS,
    TOPIC_ID,
    applied,
    cluster,
    directory,
    partition,
    with_topic,
)

NODES = range(5)
nodes = st.sampled_from(NODES)
assignments = st.permutations(NODES).flatmap(
    lambda order: st.integers(1, 3).map(lambda count: tuple(order[:count]))
)


class PartitionsUnderCommands(RuleBasedStateMachine):
    """A cluster of five brokers with two directories each, to which everything happens."""

    level = 1

    @initialize(replicas=st.lists(assignments, min_size=1, max_size=4))
    def begin(self, replicas: list[tuple[int, ...]]) -> None:
        self.image = cluster(NODES)
        if self.level > 1:
            change = FeatureChange(name="barnabas.version", level=self.level)
            able = {"barnabas.version": FeatureRange(1, self.level)}
            image = able_of(self.image, self.level)
            records, _ = features.update(image, [change], able, min_in_sync="2")
            self.image = applied(image, records)
        self.incarnation = 0
        for node_id in NODES:
            self.image = applied(self.image, self.registration(node_id)[0])
            self.image = applied(self.image, brokers.unfence(self.image, node_id, SETTINGS))
        self.image = with_topic(
            self.image,
            *(
                partition(assigned, directories=[directory(node) for node in assigned])
                for assigned in replicas
            ),
        )
        self.complete = [set(assigned) for assigned in replicas]

    # ---- what happens ------------------------------------------------------------------------

    def registration(
        self, node_id: int, *, is_clean: bool = False
    ) -> tuple[list[MetadataRecord], int]:
        self.incarnation += 1
        known = self.image.brokers.get(node_id)
        return brokers.register(
            self.image,
            Registration(
                node_id=node_id,
                incarnation_id=self.incarnation.to_bytes(16, "big"),
                cluster_id="cluster",
                listeners=(),
                directories=(directory(node_id, 0), directory(node_id, 1)),
                previous_broker_epoch=known.epoch if is_clean and known is not None else -1,
                is_fenced=True,
            ),
            SETTINGS,
            is_alive=False,
        )

    def apply(
        self, records: Sequence[MetadataRecord], *, may_grow: bool = False, is_unclean: bool = False
    ) -> None:
        """Take the records of one command, each partition's change checked against its state."""
        before = self.image
        self.image = applied(before, records)
        changed = [record for record in records if isinstance(record, PartitionRecord)]
        assert len({record.partition for record in changed}) == len(changed)
        unclean = is_unclean or SETTINGS(before, "t").unclean_leader_election_enable
        for record in changed:
            index = record.partition
            old, new = partitions_of(before)[index], partitions_of(self.image)[index]
            assert new != old
            check_step(old, new)
            is_only = self.level > 1 and old.replicas == old.last_known_elr == new.isr
            if (unclean or is_only) and not set(new.isr) <= self.complete[index]:
                self.complete[index] = set(new.isr)  # records are lost; these count from now on
            elif not (unclean or is_only):
                assert may_grow or set(new.isr) <= {*old.isr, *old.eligible_leader_replicas}
                assert new.leader in (NO_LEADER, *self.complete[index])
        for index, state in enumerate(partitions_of(self.image)):
            if state.leader != NO_LEADER and self.may_commit(state):
                self.complete[index] = set(state.isr)

    def may_commit(self, state: PartitionImage) -> bool:
        """Whether the leader may raise its high watermark without those outside of the ISR."""
        wanted = MinInSync(self.image).of(TOPIC_ID)
        return wanted is None or len(state.isr) >= min(wanted, len(state.replicas))

    @rule(node_id=nodes)
    def broker_is_fenced(self, node_id: int) -> None:
        if node_id in self.image.brokers:
            self.apply(brokers.fence(self.image, node_id, SETTINGS))

    @rule(node_id=nodes)
    def broker_is_unfenced(self, node_id: int) -> None:
        if node_id in self.image.brokers:
            self.apply(brokers.unfence(self.image, node_id, SETTINGS))

    @rule(node_id=nodes)
    def broker_is_unregistered(self, node_id: int) -> None:
        if node_id in self.image.brokers:
            self.apply(brokers.unregister(self.image, node_id, SETTINGS)[0])

    @rule(node_id=nodes)
    def broker_shuts_down(self, node_id: int) -> None:
        broker = self.image.brokers.get(node_id)
        if broker is not None and not broker.fenced:
            self.apply(brokers.begin_shutdown(self.image, node_id, SETTINGS))
            assert elections.movable_leaderships(self.image, node_id) == 0

    @rule(node_id=nodes, is_clean=st.booleans())
    def broker_comes_back(self, node_id: int, is_clean: bool) -> None:
        if not is_clean:
            for complete in self.complete:
                if len(complete) > 1 or self.level > 1:
                    complete.discard(node_id)
        self.apply(self.registration(node_id, is_clean=is_clean)[0])

    @rule(node_id=nodes, number=st.integers(0, 1))
    def directory_fails(self, node_id: int, number: int) -> None:
        offline = [directory(node_id, number)]
        broker = self.image.brokers.get(node_id)
        if broker is None or set(broker.directories) <= set(offline):
            return  # a broker without any directory left stops
        self.apply(brokers.without_directories(self.image, node_id, offline, SETTINGS))

    @rule(index=st.integers(0, 3), members=st.sets(nodes), skips_epochs=st.booleans())
    def leader_proposes_an_isr(self, index: int, members: set[int], skips_epochs: bool) -> None:
        state = self.state(index)
        if state is None or state.leader == NO_LEADER:
            return
        joining = (members & set(state.replicas)) | {state.leader}
        self.complete[index] |= joining
        proposal = AlterPartitionRequestPartitionData(
            partition_index=index,
            leader_epoch=state.leader_epoch,
            partition_epoch=state.partition_epoch,
            new_isr_with_epochs=[
                BrokerState(
                    broker_id=node,
                    broker_epoch=-1 if skips_epochs else self.epoch_of(node),
                )
                for node in sorted(joining)
            ],
        )
        topic = AlterPartitionRequestTopicData(topic_id=TOPIC_ID, partitions=[proposal])
        leader = self.image.brokers[state.leader]
        records, answers = isr.alter_partitions(self.image, leader.node_id, leader.epoch, [topic])
        self.apply(records, may_grow=True)
        answer = answers[0].partitions[0]
        now = partitions_of(self.image)[index]
        if answer.error_code == ErrorCode.NONE:
            assert (answer.leader_id, answer.isr) == (now.leader, list(now.isr))
            assert answer.partition_epoch == now.partition_epoch
        elif answer.error_code == ErrorCode.NEW_LEADER_ELECTED:
            assert now.leader != state.leader
        else:
            assert answer.error_code == ErrorCode.INELIGIBLE_REPLICA
            assert now == replace(state, partition_epoch=state.partition_epoch + 1)
        if now.leader != NO_LEADER and self.may_commit(now):
            self.complete[index] = set(now.isr)

    @rule(value=st.none() | st.integers(1, 3))
    def min_in_sync_is_changed(self, value: int | None) -> None:
        change = ConfigChange("min.insync.replicas", 0 if value else 1, str(value or 1))
        of_topic = ResourceChange(resource_type=RESOURCE_TOPIC, resource_name="t", changes=[change])
        records, _ = configs.alter_configs(
            self.image, [of_topic], broker_values={}, is_incremental=True
        )
        self.apply(records)

    @rule(node_id=nodes, index=st.integers(0, 3))
    def replica_turns_out_to_be_damaged(self, node_id: int, index: int) -> None:
        broker, state = self.image.brokers.get(node_id), self.state(index)
        if self.level > 1 and state is not None and broker is not None and broker.fenced:
            self.complete[index].discard(node_id)
            lost = [(TOPIC_ID, index)]
            self.apply(elections.lost_replicas(self.image, node_id, lost, SETTINGS)[0])

    @rule(index=st.integers(0, 3), replicas=st.none() | assignments, may_change=st.booleans())
    def partition_is_reassigned(
        self, index: int, replicas: tuple[int, ...] | None, may_change: bool
    ) -> None:
        asked = [Reassigned("t", index, replicas)]
        records, (result,) = reassignment.alter(
            self.image, asked, SETTINGS, may_change_factor=may_change
        )
        self.apply(records)
        state = self.state(index)
        if result.error is None and state is not None:
            original = set(state.replicas) - set(state.adding_replicas)
            assert original
            if replicas is None:
                assert not state.is_reassigning
            else:
                assert state.target_replicas == replicas
        else:
            assert records == []

    @rule(most=st.integers(1, 3))
    def leaders_are_balanced(self, most: int) -> None:
        records, more = leader_balance.plan(self.image, most)
        assert len(records) <= most
        assert not more or len(records) == most
        self.apply(records)
        if not more:
            assert leader_balance.plan(self.image) == ([], False)

    @rule(kind=st.integers(0, 1), index=st.none() | st.integers(0, 3))
    def administrator_elects(self, kind: int, index: int | None) -> None:
        asked = None if index is None else [("t", index)]
        records, results = leader_balance.elect_leaders(self.image, kind, asked)
        assert len(records) == sum(result.error is None for result in results)
        self.apply(records, is_unclean=kind == 1)

    @rule(is_allowed=st.booleans())
    def unclean_elections_are_allowed(self, is_allowed: bool) -> None:
        value = "true" if is_allowed else "false"
        key = "unclean.leader.election.enable"
        self.apply([ConfigRecord(RESOURCE_TOPIC, "t", key, value)])
        records, more = elections.elect_offline(self.image, SETTINGS)
        assert not more
        self.apply(records)
        assert elections.elect_offline(self.image, SETTINGS) == ([], False)

    def epoch_of(self, node_id: int) -> int:
        broker = self.image.brokers.get(node_id)
        return -1 if broker is None else broker.epoch

    def state(self, index: int) -> PartitionImage | None:
        states = partitions_of(self.image)
        return states[index] if index < len(states) else None

    # ---- what is always so -------------------------------------------------------------------

    @invariant()
    def partitions_are_well_formed(self) -> None:
        for state in partitions_of(self.image):
            replicas, members = set(state.replicas), set(state.isr)
            assert len(replicas) == len(state.replicas) > 0
            assert len(members) == len(state.isr) > (0 if self.level == 1 else -1)
            assert members <= replicas
            beside = [*state.eligible_leader_replicas, *state.last_known_elr]
            assert len({*state.isr, *beside}) == len(state.isr) + len(beside)
            assert set(beside) <= replicas
            assert not (beside and self.may_commit(state))
            assert state.leader == NO_LEADER or state.leader in members
            assert {*state.adding_replicas, *state.removing_replicas} <= replicas
            assert len(state.directories) in (0, len(state.replicas))
            for node_id, place in zip(state.replicas, state.directories, strict=False):
                assert place in (directory(node_id, 0), directory(node_id, 1), ZERO_UUID)

    @invariant()
    def leaders_can_lead(self) -> None:
        candidates = Candidates(self.image)
        for state in partitions_of(self.image):
            able = [node for node in state.isr if candidates.may_lead(node, state)]
            if state.leader == NO_LEADER:
                eligible = state.eligible_leader_replicas
                able += [node for node in eligible if candidates.may_lead(node, state)]
            if state.leader == NO_LEADER:
                assert not able
            elif not candidates.may_lead(state.leader, state):
                assert not able
                assert self.image.brokers[state.leader].is_shutting_down
                assert candidates.may_go_on(state.leader, state)

    @invariant()
    def the_isr_holds_nobody_who_is_gone_but_the_last(self) -> None:
        for state in partitions_of(self.image):
            for node_id in state.isr if len(state.isr) > 1 else ():
                broker = self.image.brokers[node_id]
                assert not broker.fenced
                assert not broker.is_shutting_down

    @invariant()
    def whoever_may_lead_cleanly_has_everything(self) -> None:
        if self.level > 1:
            for index, state in enumerate(partitions_of(self.image)):
                assert {*state.isr, *state.eligible_leader_replicas} <= self.complete[index]

    @invariant()
    def reassignments_end_when_they_can(self) -> None:
        for state in partitions_of(self.image):
            if state.is_reassigning:
                running = Assignment(state.replicas, state.adding_replicas, state.removing_replicas)
                assert completed(running, state.isr) is None


def check_step(old: PartitionImage, new: PartitionImage) -> None:
    """LEAD-6, LEAD-10: how the epochs rise in one record."""
    assert new.partition_epoch == old.partition_epoch + 1
    must_rise = new.leader != old.leader or not set(old.replicas) <= set(new.replicas)
    assert new.leader_epoch == old.leader_epoch + must_rise


def partitions_of(image: MetadataImage) -> tuple[PartitionImage, ...]:
    return image.topics.by_name["t"].partitions if "t" in image.topics.by_name else ()


def able_of(image: MetadataImage, level: int) -> MetadataImage:
    """The image with brokers that can work with a level of `barnabas.version`."""
    able = (SupportedFeature("barnabas.version", 1, level),)
    changed = {node: replace(broker, features=able) for node, broker in image.brokers.items()}
    return replace(image, brokers=changed)


class PartitionsWithEligibleReplicas(PartitionsUnderCommands):
    """The same from level 2 of `barnabas.version` on (KIP-966)."""

    level = 2


TestPartitionsUnderCommands = PartitionsUnderCommands.TestCase
TestPartitionsUnderCommands.settings = settings(max_examples=60, stateful_step_count=40)
TestPartitionsWithEligibleReplicas = PartitionsWithEligibleReplicas.TestCase
TestPartitionsWithEligibleReplicas.settings = TestPartitionsUnderCommands.settings
