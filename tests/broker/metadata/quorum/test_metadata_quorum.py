"""Shells of the metadata log together: electing, committing, publishing, faults of each kind."""

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from barnabas_broker.arbiter.arbiter import Leader, LeaderListener, Stored
from barnabas_broker.metadata.image import RESOURCE_BROKER
from barnabas_broker.metadata.image_log import PreparedRecords
from barnabas_broker.metadata.quorum.history import HISTORY_FILE
from barnabas_broker.metadata.quorum.leadership import NotLeadingError
from barnabas_broker.metadata.quorum.messages import PromiseRequest
from barnabas_broker.metadata.records import ConfigRecord
from tests.support.quorum_cluster import QuorumCluster, QuorumMachine
from tests.support.virtual_loop import run_virtual


def with_cluster(work: Callable[[QuorumCluster], Awaitable[None]], **settings: int) -> None:
    async def run() -> None:
        cluster = QuorumCluster(**settings)
        await work(cluster)
        await cluster.stop()

    run_virtual(run())


async def _three_members(cluster: QuorumCluster) -> None:
    await cluster.start()
    await cluster.register_all()
    await cluster.until(lambda: cluster.active and len(cluster.active.quorum.record.members) == 3)


def test_three_blank_nodes_elect_a_leader_and_all_publish_what_it_commits() -> None:
    """CTL-2, CTL-3, CTL-12: one of them founds the cluster, the others follow."""

    async def work(cluster: QuorumCluster) -> None:
        await _three_members(cluster)
        for number in range(20):
            await cluster.write(f"key-{number}")
        await cluster.all_have("key-19")
        assert len(cluster.leading()) == 1
        images = [machine.publisher.image for machine in cluster.machines]
        assert images[0] == images[1] == images[2]

    with_cluster(work)


def test_another_member_leads_when_the_leader_is_killed() -> None:
    """Rule 8: refused connections tell sooner than the record's age."""

    async def work(cluster: QuorumCluster) -> None:
        await _three_members(cluster)
        await cluster.write("before")
        first, started_ms = cluster.active, cluster.clock.monotonic_ms()
        await first.kill()
        await cluster.until(lambda: cluster.active)
        took_ms = cluster.clock.monotonic_ms() - started_ms
        assert took_ms < 1000, f"failover took {took_ms} ms"
        await cluster.write("after")
        await first.start()
        await cluster.all_have("after")
        await cluster.all_have("before")

    with_cluster(work)


def test_an_epoch_that_the_arbiter_never_had_is_not_promised() -> None:
    """Attack: one promise of the highest epoch kept every later winner away, restarts included."""

    async def work(cluster: QuorumCluster) -> None:
        await _three_members(cluster)
        won = cluster.active.quorum.record.controller_epoch
        for machine in cluster.machines:
            for epoch in (won + 1, 2**31 - 1):
                with pytest.raises(NotLeadingError, match="record"):
                    await machine.quorum.on_promise_request(
                        PromiseRequest(controller_epoch=epoch, leader_id=1)
                    )
            assert machine.quorum.node.promised_epoch == won
        first = cluster.active
        await first.stop()
        await cluster.until(lambda: cluster.active not in (None, first))
        await cluster.write("after")

    with_cluster(work)


def test_another_member_leads_when_the_leader_stops() -> None:
    """A leader that stops cleanly gives up, so that nobody has to wait."""

    async def work(cluster: QuorumCluster) -> None:
        await _three_members(cluster)
        await cluster.write("before")
        first, started_ms = cluster.active, cluster.clock.monotonic_ms()
        stop = asyncio.create_task(first.stop())
        await cluster.until(lambda: cluster.active not in (None, first))
        took_ms = cluster.clock.monotonic_ms() - started_ms
        assert took_ms < 300, f"failover took {took_ms} ms"
        await stop
        await cluster.write("after")
        await first.start()
        await cluster.all_have("after")

    with_cluster(work)


def test_a_silent_leader_is_replaced_when_its_record_is_old() -> None:
    """Rule 8 and CTL-14: cut off from everybody, it gives up; the others take over."""

    async def work(cluster: QuorumCluster) -> None:
        await _three_members(cluster)
        first = cluster.active
        others = {0, 1, 2} - {first.node_id}
        first.arbiter.is_cut_off = True
        cut_ms = cluster.clock.monotonic_ms()
        cluster.cut({first.node_id}, others)
        first.quorum.stage([ConfigRecord(4, "", "lost", "v")])
        with pytest.raises(NotLeadingError):
            await first.quorum.commit()
        await cluster.until(lambda: cluster.active not in (None, first))
        # REG-5: the new controller knows since when it was silent.
        heard_ms = cluster.active.quorum.leaders_heard_ms
        assert heard_ms.keys() == {first.node_id}
        assert cut_ms - 600 <= heard_ms[first.node_id] <= cut_ms
        await cluster.write("after")
        assert first.stepped_down_count == 1
        cluster.cut()
        first.arbiter.is_cut_off = False
        await cluster.all_have("after")
        assert "lost" not in first.publisher.image.config_overrides(4, "")
        # Who has led, and then follows again, starts from what it hears then.
        (former,) = first.quorum.leaders_heard_ms
        assert former == cluster.active.node_id
        assert not cluster.active.quorum.leaders_heard_ms.keys() & {cluster.active.node_id}

    with_cluster(work)


def test_the_leader_tells_who_has_the_log_and_how_far_each_copy_is() -> None:
    """KIP-836: members as voters, the other brokers as observers; who is silent falls behind."""

    async def work(cluster: QuorumCluster) -> None:
        await _three_members(cluster)
        leader = cluster.active
        await cluster.write("before")
        await cluster.all_have("before")
        await cluster.until(
            lambda: all(
                copy.log_end_offset == leader.quorum.high_watermark
                for copy in leader.quorum.describe().members
            )
        )
        before = leader.quorum.describe()
        assert before.leader_id == leader.node_id
        assert before.controller_epoch == leader.quorum.controller_epoch
        assert [copy.voter.node_id for copy in before.members] == [0, 1, 2]
        assert [copy.voter.node_id for copy in before.observers] == [3]
        for copy in (*before.members, *before.observers):
            assert copy.last_caught_up_ms <= copy.last_fetch_ms
            assert cluster.clock.wall_ms() - copy.last_fetch_ms < 1000
        lost = cluster.machines[(leader.node_id + 1) % 3]
        await lost.stop()
        began_ms = cluster.clock.wall_ms()
        await cluster.write("after")
        await cluster.until(lambda: cluster.clock.wall_ms() > began_ms + 2000)
        after = {copy.voter.node_id: copy for copy in leader.quorum.describe().members}
        assert after[lost.node_id].log_end_offset < after[leader.node_id].log_end_offset
        assert after[lost.node_id].last_caught_up_ms <= after[lost.node_id].last_fetch_ms
        assert after[lost.node_id].last_fetch_ms <= began_ms
        with pytest.raises(NotLeadingError):
            cluster.machines[(leader.node_id + 2) % 3].quorum.describe()

    with_cluster(work, count=4)


def test_a_node_that_was_away_catches_up_from_a_snapshot() -> None:
    """CTL-12: the log that it needs is gone."""

    async def work(cluster: QuorumCluster) -> None:
        await _three_members(cluster)
        away = cluster.machines[2] if cluster.active.node_id != 2 else cluster.machines[1]
        await cluster.write("before")
        await cluster.all_have("before")
        await away.stop()
        for number in range(300):
            await cluster.write(f"key-{number % 50}", "v" * 40 + str(number))
        assert all(
            machine.quorum.log.log_start_offset > 0 for machine in cluster.machines if machine.is_up
        )
        await away.start()
        await cluster.all_have("key-49")
        assert away.quorum.log.log_start_offset > 0
        await away.kill()
        await away.start()
        await cluster.write("after")
        await cluster.all_have("after")

    with_cluster(work, snapshot_interval_bytes=4000)


def test_the_cluster_goes_on_without_the_arbiter_and_fails_over_when_it_is_back() -> None:
    """CTL-13."""

    async def work(cluster: QuorumCluster) -> None:
        await _three_members(cluster)
        cluster.lose_arbiter(True)
        await asyncio.sleep(30)
        await cluster.write("without")
        await cluster.all_have("without")
        first = cluster.active
        await first.kill()
        await asyncio.sleep(10)
        assert cluster.active is None
        cluster.lose_arbiter(False)
        await cluster.write("back")
        await first.start()
        await cluster.all_have("back")

    with_cluster(work)


def test_all_nodes_start_again_after_a_power_cut() -> None:
    """Everything that was committed is there."""

    async def work(cluster: QuorumCluster) -> None:
        await _three_members(cluster)
        for number in range(10):
            await cluster.write(f"key-{number}")
        for machine in cluster.machines:
            await machine.kill()
        for machine in cluster.machines:
            await machine.start()
        await cluster.write("after")
        await cluster.all_have("after")
        await cluster.all_have("key-9")

    with_cluster(work)


def test_a_member_that_is_lost_is_replaced_by_an_observer_and_dropped_without_one() -> None:
    """Rule 4 and `metadata.member.lost.ms`."""

    async def work(cluster: QuorumCluster) -> None:
        await cluster.start()
        await cluster.register_all()
        # The leader stays a member, also where it has not one of the lowest ids.
        await cluster.until(lambda: len(cluster.member_ids) == 3)
        lost = max(cluster.member_ids - {cluster.active.node_id})
        await cluster.machines[lost].stop()
        await cluster.until(lambda: cluster.member_ids == {0, 1, 2, 3} - {lost}, 90)
        others = sorted(cluster.member_ids - {cluster.active.node_id})
        await cluster.machines[others[1]].stop()
        await cluster.until(lambda: len(cluster.member_ids) == 2, 90)
        await cluster.write("after")

    with_cluster(work, count=4)


@pytest.mark.parametrize("is_leader_first", [False, True])
def test_three_members_become_one_while_all_run_and_the_one_goes_on_alone(
    is_leader_first: bool,
) -> None:
    """Who goes for good leaves the members first; with the processes first nobody led any more."""

    async def work(cluster: QuorumCluster) -> None:
        await _three_members(cluster)
        for left in (2, 1):
            leads = cluster.active.node_id
            others = cluster.member_ids - {leads}
            going = leads if is_leader_first else max(others)
            await _announce_leaving(cluster, going)
            await cluster.until(lambda going=going: going not in cluster.member_ids)
            assert len(cluster.member_ids) == left
            await cluster.until(lambda: cluster.active)
            assert cluster.machines[going].is_up
            await cluster.machines[going].stop()
            await cluster.write(f"without-{going}")
        lone = cluster.active
        await lone.kill()
        await lone.start()
        await cluster.until(lambda: lone.quorum.is_active)
        await cluster.write("alone")
        assert cluster.member_ids == {lone.node_id}

    with_cluster(work)


async def _announce_leaving(cluster: QuorumCluster, node_id: int) -> None:
    quorum = cluster.active.quorum
    record = ConfigRecord(RESOURCE_BROKER, str(node_id), "metadata.member.leaving", "true")
    quorum.stage([record])
    await quorum.commit()


def test_an_empty_disk_is_a_new_voter() -> None:
    """Rule 6: the same node with another directory is another member."""

    async def work(cluster: QuorumCluster) -> None:
        await _three_members(cluster)
        await cluster.write("before")
        lost = next(m for m in cluster.machines if m is not cluster.active)
        await lost.kill()
        lost.new_disk()
        await lost.start()
        await cluster.all_have("before")
        voter = lost.quorum.voter
        await cluster.until(lambda: tuple(voter) in cluster.store.stored.record.members, 10)
        assert cluster.member_ids == {0, 1, 2}

    with_cluster(work)


def test_a_blank_node_adopts_the_cluster_of_the_record() -> None:
    """Two blank nodes without a cluster id race; who loses belongs to the winner's cluster."""

    async def work(cluster: QuorumCluster) -> None:
        for machine in cluster.machines:
            machine.cluster_id = f"cluster-{machine.node_id}"
            machine.may_adopt = True
        await cluster.start()
        await cluster.register_all()
        await cluster.write("key")
        await cluster.all_have("key")
        assert len({machine.publisher.image.cluster_id for machine in cluster.machines}) == 1

    with_cluster(work)


def test_a_node_of_another_cluster_stops() -> None:
    """NODE-2: it must not touch the record."""

    async def work(cluster: QuorumCluster) -> None:
        await cluster.machines[0].start()
        await cluster.until(lambda: cluster.active)
        cluster.machines[1].cluster_id = "another"
        await cluster.machines[1].start()
        await cluster.until(lambda: cluster.machines[1].failures)
        assert "another" in str(cluster.machines[1].failures.pop())

    with_cluster(work)


def test_a_follower_that_was_restarted_hears_at_once_what_is_committed() -> None:
    """A broker must not wait at its start for something new to happen."""

    async def work(cluster: QuorumCluster) -> None:
        await _three_members(cluster)
        await cluster.write("before")
        await cluster.all_have("before")
        await asyncio.sleep(2)
        follower = next(m for m in cluster.machines if m is not cluster.active)
        await follower.stop()
        await asyncio.sleep(0.3)
        started_ms = cluster.clock.monotonic_ms()
        await follower.start()
        await cluster.until(lambda: follower.quorum.is_caught_up)
        assert cluster.clock.monotonic_ms() - started_ms < 50
        assert "before" in follower.publisher.image.config_overrides(4, "")

    with_cluster(work)


def test_an_interrupted_installation_of_a_snapshot_is_ended_by_the_next_start() -> None:
    """The log is emptied before the snapshot gets its name."""

    async def work(cluster: QuorumCluster) -> None:
        await _three_members(cluster)
        away = next(m for m in cluster.machines if m is not cluster.active)
        await away.stop()
        for number in range(200):
            await cluster.write(f"key-{number % 50}", "v" * 40 + str(number))
        for path in (".installing", ".log"):
            await away.start()
            away.disk.fail("rename", path)
            await cluster.until(lambda: away.failures)
            away.failures.clear()
            await away.kill()
        await away.start()
        await cluster.all_have("key-49")

    with_cluster(work, snapshot_interval_bytes=4000)


def test_a_disk_that_fails_stops_the_node_and_the_others_go_on() -> None:
    """What the disk holds is not known any more: the broker has to stop."""

    async def work(cluster: QuorumCluster) -> None:
        await _three_members(cluster)
        first = cluster.active
        first.disk.fail("sync", "__cluster_metadata-0")
        first.quorum.stage([ConfigRecord(4, "", "key", "v")])
        with pytest.raises(NotLeadingError):
            await first.quorum.commit()
        assert len(first.failures) == 1
        first.failures.clear()
        await first.kill()
        await cluster.write("after")
        await first.start()
        await cluster.all_have("after")

    with_cluster(work)


def test_a_disk_that_cannot_keep_the_history_stops_the_node() -> None:
    """It was seen by nobody: the task that reads the record ended, and the node stayed dumb."""

    async def work(cluster: QuorumCluster) -> None:
        await _three_members(cluster)
        away = next(m for m in cluster.machines if m is not cluster.active)
        await away.kill()
        away.new_disk()
        away.disk.fail("rename", HISTORY_FILE)
        await away.start()
        await cluster.until(lambda: away.failures)
        assert isinstance(away.failures[0], OSError)
        away.failures.clear()
        await away.kill()
        await cluster.write("after")

    with_cluster(work)


def test_nobody_founds_a_second_cluster_when_the_record_is_lost() -> None:
    """Decision 0007: brokers that know of others wait for the record to be brought back."""

    async def work(cluster: QuorumCluster) -> None:
        await _three_members(cluster)
        await cluster.write("before")
        await cluster.all_have("before")
        record = cluster.store.stored.record
        for machine in cluster.machines:
            await machine.kill()
        cluster.store.put(None)
        for machine in cluster.machines:
            await machine.start()
        await asyncio.sleep(60)
        assert cluster.active is None
        assert cluster.store.stored.record is None
        cluster.store.put(record)
        await cluster.write("after")
        await cluster.all_have("after")

    with_cluster(work)


def test_a_lone_node_goes_on_after_its_record_was_removed() -> None:
    """CTL-10: an election is forced by that."""

    async def work(cluster: QuorumCluster) -> None:
        await cluster.start()
        await cluster.write("before")
        await cluster.until(lambda: 0 in cluster.machines[0].publisher.image.brokers)
        epoch = cluster.machines[0].quorum.controller_epoch
        cluster.store.put(None)
        await cluster.until(lambda: cluster.machines[0].stepped_down_count)
        await cluster.write("after")
        assert cluster.machines[0].quorum.controller_epoch == epoch + 1

    with_cluster(work, count=1)


def test_a_read_of_the_record_that_fails_is_not_taken_for_no_record() -> None:
    """Decision 0007: the arbiter is away at the first start."""

    async def work(cluster: QuorumCluster) -> None:
        cluster.lose_arbiter(True)
        await cluster.start()
        await asyncio.sleep(120)
        assert cluster.active is None
        cluster.lose_arbiter(False)
        await cluster.register_all()
        await cluster.write("key")
        await cluster.all_have("key")

    with_cluster(work)


def test_the_leader_is_not_looked_for_where_an_old_copy_of_the_record_has_it() -> None:
    """Rule 10, SEC-89: since the copy was made, it has come back with other listeners."""

    async def work(cluster: QuorumCluster) -> None:
        await _three_members(cluster)
        first = cluster.active
        assert first is not None
        await first.kill()
        await cluster.until(lambda: cluster.active)
        leader = cluster.active
        assert leader is not None
        (follower,) = (one for one in cluster.machines if one not in (first, leader))
        address = ("localhost", 9000 + leader.node_id)
        await cluster.until(lambda: follower.quorum.record.token == cluster.store.stored.token)
        stored = cluster.store.stored
        assert stored.record is not None and stored.record.controller_epoch > 1
        assert follower.quorum.address_of(leader.node_id) == address
        before = Leader(leader.node_id, "before", 1, (LeaderListener("PLAINTEXT", "before", 2),))
        copy = stored.record._replace(
            controller_epoch=stored.record.controller_epoch - 1, leader=before
        )
        cluster.store.stored = Stored(copy, stored.token - 1)
        is_read = await _reads(follower)
        await cluster.until(is_read.is_set)
        assert follower.quorum.address_of(leader.node_id) == address
        cluster.store.stored = stored

    with_cluster(work)


async def _reads(machine: QuorumMachine) -> asyncio.Event:
    """An event for when a node has taken in two readings that begin from now on."""
    done, read, count = asyncio.Event(), machine.arbiter.read, 0

    async def reading() -> Stored:
        nonlocal count
        count += 1
        # Readings come one after the other: with the third, two were taken in.
        if count > 2:
            done.set()
        return await read()

    machine.arbiter.read = reading  # type: ignore[method-assign]
    return done


def test_a_leader_whose_controller_cannot_be_activated_gives_up() -> None:
    """CTL-7: the cluster is never left with a leader that does not act."""

    def broken(epoch: int) -> None:
        raise ZeroDivisionError

    async def work(cluster: QuorumCluster) -> None:
        await _three_members(cluster)
        first = cluster.active
        others = [machine for machine in cluster.machines if machine is not first]
        others[0].quorum.callbacks.on_lead = broken
        await first.kill()
        await cluster.until(lambda: cluster.active is others[1])
        await cluster.write("after")
        assert others[0].stepped_down_count > 0

    with_cluster(work)


def test_what_was_prepared_for_another_image_is_not_staged() -> None:
    """CTL-11: who prepares in turns of the loop may have lost the leadership, and have it again."""

    async def work(cluster: QuorumCluster) -> None:
        await _three_members(cluster)
        quorum = cluster.active.quorum
        late, prepared = (PreparedRecords(quorum.pending_image) for _ in range(2))
        for one in (late, prepared):
            one.add([ConfigRecord(4, "", "prepared", "v")])
        assert quorum.stage_prepared(prepared) == quorum.pending_image.offset
        with pytest.raises(NotLeadingError):
            quorum.stage_prepared(late)
        await quorum.commit()
        await cluster.all_have("prepared")

    with_cluster(work)


def test_what_was_staged_and_not_written_is_forgotten_with_the_leadership() -> None:
    """CTL-11: the node goes on as a follower, with nothing of its own in the way."""

    async def work(cluster: QuorumCluster) -> None:
        await _three_members(cluster)
        first = cluster.active
        first.arbiter.is_cut_off = True
        cluster.cut({first.node_id}, {0, 1, 2} - {first.node_id})
        first.quorum.stage([ConfigRecord(4, "", "staged", "v")])
        await cluster.until(lambda: first.stepped_down_count)
        assert first.quorum.pending_image.offset + 1 == first.quorum.log.log_end_offset
        cluster.cut()
        first.arbiter.is_cut_off = False
        await cluster.write("after")
        await cluster.all_have("after")
        assert "staged" not in first.quorum.pending_image.config_overrides(4, "")

    with_cluster(work)
