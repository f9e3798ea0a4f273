"""Transactional ids: who may write, what fences whom, and what a repeated request is told."""

from dataclasses import replace

import pytest

from barnabas_broker.coordinator.runtime.shard import Result
from barnabas_broker.coordinator.transaction.shard import Outcome, Producer, TransactionShard
from barnabas_broker.coordinator.transaction.state import TransactionState as State
from barnabas_protocol.errors import ErrorCode, KafkaError
from barnabas_protocol.ids import TopicPartition
from tests.broker.coordinator.transaction.shard_driver import ID, A, B, ShardDriver

V1, V2 = 0, 2


def refused(call, code):
    with pytest.raises(KafkaError) as caught:
        call()
    assert caught.value.code is code


def opened(version=V1, **settings):
    """A driver with an open transaction in A, and its producer."""
    driver = ShardDriver(**settings)
    producer = driver.init().producer
    driver.add(producer, A, version=version)
    return driver, producer


def at_epoch(driver, epoch):
    """The producer of a driver whose transactional id has come to an epoch."""
    known = driver.known()
    driver.shard.transactions[ID] = type(known)(
        transactional_id=ID,
        producer_id=known.producer_id,
        producer_epoch=epoch,
        timeout_ms=known.timeout_ms,
        updated_ms=known.updated_ms,
    )
    return Producer(known.producer_id, epoch)


# ---- a producer begins -------------------------------------------------------------------------


def test_first_producer_gets_a_fresh_id_and_the_next_one_its_next_epoch():
    """TXN-2."""
    driver = ShardDriver()
    first, second = driver.init(), driver.init()
    assert first == Outcome(ErrorCode.NONE, Producer(1000, 0))
    assert second == Outcome(ErrorCode.NONE, Producer(1000, 1))
    assert driver.replayed()[ID].producer_epoch == 1


def test_producer_that_was_replaced_is_fenced_everywhere():
    """TXN-2, TXN-3, TXN-5: of two with one transactional id the later one lives."""
    driver, first = opened()
    driver.init()
    driver.complete()
    assert driver.init().producer.producer_epoch == 2
    refused(lambda: driver.add(first, B), ErrorCode.PRODUCER_FENCED)
    refused(lambda: driver.end(first, commits=True), ErrorCode.PRODUCER_FENCED)
    refused(lambda: driver.init(first), ErrorCode.PRODUCER_FENCED)


def test_init_aborts_an_open_transaction_and_asks_to_come_again():
    """TXN-2: the epoch rises once for the abort and once more for the new producer."""
    driver, _ = opened()
    assert driver.init().code is ErrorCode.CONCURRENT_TRANSACTIONS
    (prepared,) = driver.markers.sent
    assert (prepared.state, prepared.producer_epoch) == (State.PREPARE_ABORT, 1)
    assert prepared.partitions == {A}
    refused(driver.init, ErrorCode.CONCURRENT_TRANSACTIONS)
    assert driver.complete().state is State.COMPLETE_ABORT
    assert driver.init().producer == Producer(1000, 2)


def test_init_of_a_producer_that_lost_the_response_gives_the_same_epoch_again():
    """TXN-2, KIP-360."""
    driver = ShardDriver()
    first = driver.init().producer
    second = driver.init(first).producer
    assert driver.init(first).producer == second
    assert driver.init(second).producer.producer_epoch == second.producer_epoch + 1


def test_repeated_init_is_fenced_by_a_coordinator_that_did_not_see_the_first():
    """TXN-8: the epoch before the last change is not stored."""
    driver = ShardDriver()
    first = driver.init().producer
    driver.init(first)
    driver.shard.transactions.update(driver.replayed())
    refused(lambda: driver.init(first), ErrorCode.PRODUCER_FENCED)


def test_producer_id_without_epochs_left_is_replaced():
    """TXN-2: a new id, at epoch 0; who has lost that response gets it again."""
    driver = ShardDriver()
    driver.init()
    last = at_epoch(driver, 32766)
    fresh = driver.init(last).producer
    assert fresh == Producer(1001, 0)
    assert driver.known().previous_producer_id == 1000
    assert driver.init(last).producer == fresh


def test_too_many_transactional_ids_are_refused():
    driver = ShardDriver(ids_max=2)
    driver.init(name="one")
    driver.init(name="two")
    refused(lambda: driver.init(name="three"), ErrorCode.COORDINATOR_NOT_AVAILABLE)
    assert driver.init(name="one").code is ErrorCode.NONE


def test_a_host_leaves_transactional_ids_to_others():
    """A client that invents them took all there may be, for the days that they are remembered."""
    driver = ShardDriver(ids_per_host_max=2, expiration_ms=1_000, expiry_interval_ms=100)
    for name, host in (("one", "fd00::1"), ("two", "fd00::2"), ("three", "10.0.0.1")):
        driver.init(name=name, host=host)
    code = ErrorCode.COORDINATOR_NOT_AVAILABLE
    refused(lambda: driver.init(name="four", host="fd00::3"), code)
    assert driver.init(name="two", host="fd00::3").code is ErrorCode.NONE
    driver.refuse(
        *driver.begin(
            lambda now: driver.shard.init_producer(
                "five", 60_000, Producer(), 1, now, host="10.0.0.1"
            )
        ),
        KafkaError(ErrorCode.NOT_ENOUGH_REPLICAS),
    )
    driver.init(name="six", host="10.0.0.1")
    driver.pass_time(2_000)
    driver.init(name="four", host="fd00::3")
    driver.shard.close(ErrorCode.NOT_COORDINATOR)
    assert not driver.context.holdings.ids_of


# ---- it writes ---------------------------------------------------------------------------------


def test_partitions_of_open_transactions_are_bounded():
    """Thousands of ids with every partition that there is took all memory for a quarter of an
    hour; small transactions go on."""
    driver = ShardDriver(partitions_max=150, partitions_per_host_max=100)
    producers = {
        name: driver.init(name=name, host=host).producer
        for name, host in (("one", "a"), ("two", "a"), ("three", "b"), ("four", "b"))
    }

    def add(name, count):
        partitions = [TopicPartition("t", number) for number in range(count)]
        driver.add(producers[name], *partitions, name=name)

    code = ErrorCode.COORDINATOR_NOT_AVAILABLE
    add("one", 60)
    add("one", 80)
    refused(lambda: add("two", 30), code)
    add("two", 16)
    refused(lambda: add("three", 60), code)
    add("three", 50)
    driver.end(producers["one"], commits=True, name="one")
    refused(lambda: add("four", 60), code)
    driver.complete()
    add("four", 50)
    loaded = TransactionShard(0, driver.context)
    driver.shard.close(ErrorCode.NOT_COORDINATOR)
    assert driver.context.holdings.partition_count == 0
    for record in driver.log:
        loaded.replay(record, -1)
    assert driver.context.holdings.partition_count == 0
    loaded.loaded(driver.now)
    assert driver.context.holdings.partition_count == 16 + 50 + 50
    assert not driver.context.holdings.partitions_of


def test_partitions_add_up_and_known_ones_are_not_written_again():
    """TXN-3."""
    driver, producer = opened()
    driver.add(producer, B)
    written = len(driver.log)
    driver.add(producer, A, B)
    assert len(driver.log) == written
    assert driver.replayed()[ID].partitions == {A, B}


def test_unknown_ids_and_other_producers_are_refused():
    """TXN-3: in this order."""
    driver, producer = opened()
    other = Producer(producer.producer_id + 1, 0)
    refused(lambda: driver.add(producer, A, name="nobody"), ErrorCode.INVALID_PRODUCER_ID_MAPPING)
    refused(lambda: driver.add(other, A), ErrorCode.INVALID_PRODUCER_ID_MAPPING)
    newer = Producer(producer.producer_id, 7)
    refused(lambda: driver.add(newer, A), ErrorCode.PRODUCER_FENCED)


def test_verification_names_the_partitions_of_the_open_transaction():
    """TXN-3: and waits for what is on its way into the log."""
    driver, producer = opened()
    result, _ = driver.begin(lambda _: driver.shard.verify(ID, producer, frozenset((A, B))))
    assert (result.reply, result.waits_for_commit) == ({A}, True)
    driver.end(producer, commits=True)
    refused(
        lambda: driver.shard.verify(ID, producer, frozenset((A,))),
        ErrorCode.CONCURRENT_TRANSACTIONS,
    )
    driver.complete()
    assert driver.shard.verify(ID, producer, frozenset((A,))).reply == frozenset()


# ---- it ends -----------------------------------------------------------------------------------


@pytest.mark.parametrize("commits", [True, False])
def test_outcome_is_in_the_log_before_markers_are_sent(commits):
    """TXN-5: PrepareX is the commit point."""
    driver, producer = opened()
    result, sequence = driver.begin(
        lambda now: driver.shard.end(ID, producer, None, now, commits=commits, client_version=V1)
    )
    assert driver.markers.sent == []
    driver.commit(result, sequence)
    (prepared,) = driver.markers.sent
    assert prepared.state is (State.PREPARE_COMMIT if commits else State.PREPARE_ABORT)
    assert driver.replayed()[ID].state is prepared.state
    refused(lambda: driver.end(producer, commits=commits), ErrorCode.CONCURRENT_TRANSACTIONS)
    refused(lambda: driver.end(producer, commits=not commits), ErrorCode.CONCURRENT_TRANSACTIONS)
    refused(lambda: driver.add(producer, B), ErrorCode.CONCURRENT_TRANSACTIONS)
    driver.complete()
    assert driver.end(producer, commits=commits).code is ErrorCode.NONE
    refused(lambda: driver.end(producer, commits=not commits), ErrorCode.INVALID_TXN_STATE)


def test_end_of_nothing_is_refused_to_classic_producers():
    """TXN-5."""
    driver = ShardDriver()
    producer = driver.init().producer
    for commits in (True, False):
        refused(lambda c=commits: driver.end(producer, commits=c), ErrorCode.INVALID_TXN_STATE)


def test_refused_append_leaves_the_transaction_open():
    """TXN-8: and sends no markers; the same request works later."""
    driver, producer = opened()
    result, sequence = driver.begin(
        lambda now: driver.shard.end(ID, producer, None, now, commits=True, client_version=V1)
    )
    refused(lambda: driver.add(producer, B), ErrorCode.CONCURRENT_TRANSACTIONS)
    driver.refuse(result, sequence, KafkaError(ErrorCode.NOT_ENOUGH_REPLICAS))
    assert driver.known().state is State.ONGOING
    assert driver.markers.sent == []
    assert driver.end(producer, commits=True).code is ErrorCode.NONE


def test_markers_of_an_ended_transaction_complete_nothing_else():
    """TXN-6: what has gone on since is not touched by a late completion."""
    driver, producer = opened()
    driver.end(producer, commits=True)
    prepared = driver.markers.sent[-1]
    driver.complete()
    driver.add(producer, B)
    assert driver.run(lambda now: driver.shard.complete(prepared, now)) is None
    assert driver.known().state is State.ONGOING


# ---- version 2 ---------------------------------------------------------------------------------


def test_every_end_of_version_2_raises_the_epoch():
    """TXN-13: markers carry the new epoch, the response gives it to the producer."""
    driver, producer = opened(V2)
    outcome = driver.end(producer, commits=True, version=V2)
    assert outcome.producer == Producer(producer.producer_id, 1)
    assert driver.markers.sent[-1].producer_epoch == 1
    assert driver.complete().producer_epoch == 1
    refused(lambda: driver.add(producer, A, version=V2), ErrorCode.PRODUCER_FENCED)
    driver.add(outcome.producer, A, version=V2)


def test_repeated_end_of_version_2_is_known_by_the_epoch_before():
    """TXN-13: the table of state, epoch and outcome."""
    driver, old = opened(V2)
    new = driver.end(old, commits=True, version=V2).producer
    busy = ErrorCode.CONCURRENT_TRANSACTIONS
    refused(lambda: driver.end(old, commits=True, version=V2), busy)
    refused(lambda: driver.end(old, commits=False, version=V2), busy)
    driver.complete()
    assert driver.end(old, commits=True, version=V2).producer == new
    refused(lambda: driver.end(old, commits=False, version=V2), ErrorCode.INVALID_TXN_STATE)
    refused(lambda: driver.end(new, commits=True, version=V2), ErrorCode.INVALID_TXN_STATE)
    after = driver.end(new, commits=False, version=V2).producer
    assert after.producer_epoch == new.producer_epoch + 1


def test_abort_of_nothing_in_version_2_raises_the_epoch_without_markers():
    """TXN-13: a partition was perhaps on its way into the transaction."""
    driver = ShardDriver()
    producer = driver.init().producer
    refused(lambda: driver.end(producer, commits=True, version=V2), ErrorCode.INVALID_TXN_STATE)
    outcome = driver.end(producer, commits=False, version=V2)
    assert outcome.producer.producer_epoch == 1
    assert driver.markers.sent[-1].partitions == frozenset()
    assert driver.complete().state is State.COMPLETE_ABORT
    assert driver.end(producer, commits=False, version=V2).producer == outcome.producer


def test_last_epoch_of_version_2_ends_with_a_new_producer_id():
    """TXN-13: markers get the old id at 32767, the producer goes on with the new one at 0."""
    driver = ShardDriver()
    driver.init()
    last = at_epoch(driver, 32766)
    driver.add(last, A, version=V2)
    outcome = driver.end(last, commits=True, version=V2)
    assert outcome.producer == Producer(1001, 0)
    assert driver.markers.sent[-1].producer_id == 1000
    assert driver.markers.sent[-1].producer_epoch == 32767
    assert driver.replayed()[ID].next_producer_id == 1001
    known = driver.complete()
    assert (known.producer_id, known.producer_epoch) == (1001, 0)
    assert driver.end(last, commits=True, version=V2).producer == outcome.producer
    driver.add(outcome.producer, A, version=V2)


def test_end_of_the_next_transaction_waits_for_the_markers_of_this_one():
    """TXN-5: its producer has the new epoch already, and is not fenced for being quick.

    Found by a story of clients on whole clusters (321).
    """
    driver, old = opened(V2)
    new = driver.end(old, commits=True, version=V2).producer
    busy = ErrorCode.CONCURRENT_TRANSACTIONS
    refused(lambda: driver.end(new, commits=False, version=V2), busy)
    driver.complete()
    assert driver.end(new, commits=False, version=V2).code is ErrorCode.NONE


def test_producer_that_was_aborted_at_its_last_epoch_may_not_go_on_with_it():
    """TXN-13, TXN-7: at 32767 no end could raise the epoch, and the transaction would never end."""
    driver = ShardDriver()
    driver.init()
    last = at_epoch(driver, 32766)
    driver.add(last, A, version=V2)
    driver.pass_time(80_000)
    assert driver.complete().producer_epoch == 32767
    refused(lambda: driver.end(last, commits=False, version=V2), ErrorCode.PRODUCER_FENCED)
    assert driver.init().producer == Producer(1001, 0)


def test_transactional_id_that_is_too_long_is_refused_and_leaves_nothing_behind():
    """TXN-2: its record could not be written, and its name stayed among the pending changes."""
    driver = ShardDriver()
    for length in (1025, 40_000):
        refused(lambda n=length: driver.init(name="x" * n), ErrorCode.INVALID_REQUEST)
    refused(lambda: driver.init(name="\N{SNOWMAN}" * 342), ErrorCode.INVALID_REQUEST)
    assert driver.init(name="x" * 1024).code is ErrorCode.NONE
    assert driver.context.metrics.id_count == 1


def test_transaction_keeps_room_for_the_record_of_its_end():
    """TXN-5: one that is stored and whose end is too large for the log could never end."""
    driver, producer = opened()
    many = [TopicPartition("x" * 245 + f"{number:04}", 0) for number in range(4_000)]
    refused(lambda: driver.add(producer, *many), ErrorCode.MESSAGE_TOO_LARGE)
    driver.add(producer, *many[:2_500])
    refused(lambda: driver.add(producer, *many[2_500:]), ErrorCode.MESSAGE_TOO_LARGE)
    assert driver.end(producer, commits=True).code is ErrorCode.NONE


def test_producer_with_a_new_id_waits_for_the_markers_of_the_old_one():
    """TXN-13: it knows the new id from the response to its end, and may write at once.

    49 or 90 would be the end of it; in Kafka the change is pending until CompleteX, so 51.
    """
    driver = ShardDriver()
    driver.init()
    last = at_epoch(driver, 32766)
    driver.add(last, A, version=V2)
    fresh = driver.end(last, commits=True, version=V2).producer
    for call in (
        lambda: driver.add(fresh, B, version=V2),
        lambda: driver.shard.verify(ID, fresh, frozenset((B,))),
        lambda: driver.end(fresh, commits=False, version=V2),
        lambda: driver.init(fresh),
    ):
        refused(call, ErrorCode.CONCURRENT_TRANSACTIONS)
    driver.complete()
    driver.add(fresh, B, version=V2)


def test_request_without_a_producer_id_is_of_nobody():
    """TXN-3: -1 is no producer id, not even while none is to follow."""
    driver, _ = opened()
    refused(lambda: driver.add(Producer(), B), ErrorCode.INVALID_PRODUCER_ID_MAPPING)
    refused(
        lambda: driver.end(Producer(), commits=True, version=V2),
        ErrorCode.INVALID_PRODUCER_ID_MAPPING,
    )


def test_fenced_producer_is_not_told_the_epoch_of_a_version_1_transaction():
    """TXN-13, KIP-890: only an end of version 2 gives a producer the epoch above its own.

    Whoever has the epoch below that of a classic transaction was replaced by its producer.
    """
    driver = ShardDriver()
    zombie = driver.init().producer
    live = driver.init().producer
    driver.add(live, A, version=V1)
    driver.end(live, commits=True, version=V1)
    driver.complete()
    refused(lambda: driver.end(zombie, commits=True, version=V2), ErrorCode.PRODUCER_FENCED)
    refused(lambda: driver.end(zombie, commits=False, version=V2), ErrorCode.PRODUCER_FENCED)


def test_fenced_producer_does_not_abort_the_transaction_of_its_successor():
    """TXN-2: who names an older epoch is refused before anything is fenced."""
    driver = ShardDriver()
    zombie = driver.init().producer
    live = driver.init().producer
    driver.add(live, A)
    refused(lambda: driver.init(zombie), ErrorCode.PRODUCER_FENCED)
    assert driver.end(live, commits=True).code is ErrorCode.NONE


def test_completion_that_may_still_be_refused_is_not_taken_for_done():
    """TXN-6: its sender would forget the transaction, and nobody would ever complete it."""
    driver, producer = opened()
    driver.end(producer, commits=True)
    prepared = driver.markers.sent[-1]
    under_way = driver.begin(lambda now: driver.shard.complete(prepared, now))
    refused(
        lambda: driver.run(lambda now: driver.shard.complete(prepared, now)),
        ErrorCode.CONCURRENT_TRANSACTIONS,
    )
    driver.refuse(*under_way, KafkaError(ErrorCode.NOT_ENOUGH_REPLICAS))
    assert driver.complete().state is State.COMPLETE_COMMIT


# ---- time --------------------------------------------------------------------------------------


@pytest.mark.parametrize(("level", "version"), [(2, V2), (1, V1), (0, V1)])
def test_transaction_that_is_open_for_too_long_is_aborted(level, version):
    """TXN-7: by the version that the cluster has, with the epoch raised once."""
    driver, producer = opened(transaction_version=level)
    driver.pass_time(50_000)
    assert driver.markers.sent == []
    driver.pass_time(20_000)
    (prepared,) = driver.markers.sent
    assert prepared.state is State.PREPARE_ABORT
    assert prepared.client_version == version
    assert prepared.producer_epoch == producer.producer_epoch + 1
    driver.complete()
    refused(lambda: driver.end(producer, commits=True), ErrorCode.PRODUCER_FENCED)


def test_ids_that_nobody_uses_are_forgotten_and_open_ones_are_not():
    """TXN-7: afterwards they are unknown (49)."""
    driver = ShardDriver(expiration_ms=100_000, expiry_interval_ms=10_000)
    idle = driver.init(name="idle").producer
    driver.init(name="busy")
    driver.pass_time(90_000)
    driver.init(name="busy")
    driver.pass_time(15_000)
    assert set(driver.shard.transactions) == set(driver.replayed()) == {"busy"}
    refused(lambda: driver.add(idle, A, name="idle"), ErrorCode.INVALID_PRODUCER_ID_MAPPING)


def steps_until_done(driver, by_ms):
    """The records of each step that is due after some time, with the pauses between them."""
    driver.now_ms += by_ms
    steps = []
    while (action := driver.shard.timers.take_due(driver.now_ms)) is not None:
        before = len(driver.log)
        driver.run(action)
        steps.append(len(driver.log) - before)
        assert driver.shard.timers.next_deadline_ms() > driver.now_ms
        driver.now_ms += 1
    return steps


def test_aborting_many_transactions_goes_in_steps_with_pauses():
    """TXN-7: thousands that are open for too long do not hold up the broker."""
    driver = ShardDriver(expiry_interval_ms=10**9)
    for number in range(1_100):
        producer = driver.init(name=f"id-{number}", timeout_ms=1).producer
        driver.add(producer, A, name=f"id-{number}")
    assert steps_until_done(driver, 10_000) == [100] * 11
    assert len(driver.markers.sent) == 1_100


def test_expiry_of_many_ids_goes_in_steps_with_pauses():
    driver = ShardDriver(
        expiration_ms=100_000, expiry_interval_ms=100_000, timeouts_interval_ms=10**9
    )
    for number in range(1_100):
        driver.init(name=f"id-{number}")
    assert steps_until_done(driver, 100_000) == [100] * 11
    assert driver.shard.transactions == {}
    assert driver.context.metrics.id_count == 0


# ---- the next coordinator ----------------------------------------------------------------------


def test_next_coordinator_sends_the_markers_that_are_missing():
    """TXN-6."""
    driver, producer = opened()
    driver.end(producer, commits=True)
    other = TransactionShard(0, driver.context)
    for record in driver.log:
        other.replay(record, -1)
    driver.markers.sent.clear()
    assert isinstance(other.loaded(driver.now), Result)
    (prepared,) = driver.markers.sent
    assert (prepared.state, prepared.partitions) == (State.PREPARE_COMMIT, {A})


def test_next_coordinator_sends_very_many_markers_in_steps():
    """TXN-6: a load holds up nobody for long."""
    driver = ShardDriver()
    for number in range(250):
        producer = driver.init(name=f"id-{number}").producer
        driver.add(producer, A, name=f"id-{number}")
        driver.end(producer, commits=True, name=f"id-{number}")
    other = TransactionShard(0, driver.context)
    for record in driver.log:
        other.replay(record, -1)
    driver.markers.sent.clear()
    other.loaded(driver.now)
    counts = [len(driver.markers.sent)]
    while counts[-1] < 250:
        driver.now_ms += 1
        action = other.timers.take_due(driver.now_ms)
        assert action is not None
        action(driver.now)
        counts.append(len(driver.markers.sent))
    assert counts == [100, 200, 250]
    assert len({prepared.transactional_id for prepared in driver.markers.sent}) == 250


def test_next_coordinator_knows_a_version_2_transaction_when_the_level_was_lowered():
    """TXN-11, TXN-13: what its producer was told must not depend on who coordinates it."""
    driver = ShardDriver()
    driver.init()
    last = at_epoch(driver, 32766)
    driver.add(last, A, version=V2)
    driver.transaction_version = 0
    driver.end(last, commits=True, version=V2)
    prepared = driver.replayed()[ID]
    assert (prepared.next_producer_id, prepared.client_version) == (1001, V2)
    driver.complete()
    assert replace(driver.known(), last_producer_epoch=-1) == driver.replayed()[ID]


def test_shard_that_was_loaded_in_vain_counts_no_ids():
    """Its leadership went while it was read: nobody closes it, and `ids_max` would fill up."""
    driver, _ = opened()
    other = TransactionShard(0, driver.context)
    for record in driver.log:
        other.replay(record, -1)
    assert driver.context.metrics.id_count == 1
    other.close(ErrorCode.NOT_COORDINATOR)
    assert driver.context.metrics.id_count == 1


def test_states_are_counted_as_they_are():
    """Also through refusals, expiry and a load; the counts are kept, not taken."""
    driver = ShardDriver(expiration_ms=100_000, expiry_interval_ms=10_000)
    driver.init(name="expires")
    driver.pass_time(1_000)
    assert driver.shard.oldest_open_ms() is None
    first = driver.now_ms
    open_, ended = driver.init(name="open").producer, driver.init(name="ended").producer
    driver.add(open_, A, name="open")
    driver.pass_time(1_000)
    driver.add(ended, A, name="ended")
    under_way = driver.begin(
        lambda now: driver.shard.end("ended", ended, None, now, commits=True, client_version=V1)
    )
    driver.refuse(*under_way, KafkaError(ErrorCode.NOT_ENOUGH_REPLICAS))
    driver.end(ended, commits=True, name="ended")
    expected = {State.EMPTY: 1, State.ONGOING: 1, State.PREPARE_COMMIT: 1}
    loaded = TransactionShard(0, driver.context)
    for record in driver.log:
        loaded.replay(record, -1)
    for shard in (driver.shard, loaded):
        assert +shard.count_by_state() == expected
        assert shard.oldest_open_ms() == first
    driver.complete()
    driver.pass_time(105_000)
    assert State.EMPTY not in +driver.shard.count_by_state()


def test_closed_shard_stops_its_markers():
    driver, _ = opened()
    driver.shard.close(ErrorCode.NOT_COORDINATOR)
    assert driver.markers.forgotten == [0]
    assert driver.context.metrics.id_count == 0
