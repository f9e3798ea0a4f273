"""The numbers of a partition, case by case; `test_delivery_model.py` mixes them all (PRD-9)."""

from barnabas_client.producer.batch import ProducerBatch
from barnabas_client.producer.idempotence import (
    EPOCH_MAX,
    Identities,
    PartitionSequences,
    ProducerIdentity,
)

FIRST = ProducerIdentity(1, 0)


def identities(current: ProducerIdentity = FIRST, *, is_transactional: bool = False) -> Identities:
    made = Identities(is_transactional=is_transactional)
    made.current = current
    return made


def batch(order: int, count: int = 1) -> ProducerBatch:
    made = ProducerBatch("t", 0, room_bytes=0, reserved_bytes=0, created_ms=0, order=(order,))
    made.record_count = count
    return made


def sent(
    sequences: PartitionSequences, known: Identities, *batches: ProducerBatch
) -> list[ProducerBatch]:
    for one in batches:
        assert sequences.may_send(one, known)
        sequences.on_sent(one)
    return list(batches)


def begun() -> PartitionSequences:
    """A partition in whose log the producer has something already (a batch without records)."""
    sequences = PartitionSequences()
    (empty,) = sent(sequences, identities(), batch(0, 0))
    sequences.on_response(empty)
    sequences.on_success(empty)
    return sequences


def test_numbers_count_records_and_wrap() -> None:
    """TXL-2: 2^31 - 1 is followed by 0."""
    sequences, known = begun(), identities()
    first, second = sent(sequences, known, batch(1, 3), batch(2, 2))
    assert (first.sequence, second.sequence) == (0, 3)
    sequences.next_sequence = (1 << 31) - 2
    third, fourth = sent(sequences, known, batch(3, 5), batch(4, 1))
    assert (third.sequence, third.last_sequence, fourth.sequence) == ((1 << 31) - 2, 2, 3)


def test_without_an_identity_nothing_goes_out() -> None:
    """The sender asks a broker for one first."""
    assert not PartitionSequences().may_send(batch(1), Identities())


def test_five_batches_may_be_outstanding() -> None:
    """The broker remembers five."""
    sequences, known = begun(), identities()
    first, *_ = sent(sequences, known, *(batch(number) for number in range(5)))
    assert not sequences.may_send(batch(9), known)
    sequences.on_response(first)
    sequences.on_success(first)
    assert sequences.may_send(batch(9), known)


def test_no_more_than_five_batches_are_numbered_while_the_first_is_not_acknowledged() -> None:
    """TXL-1: an old leader is silent while the next one acknowledges what follows.

    That one remembers its last five: the first must be among them when it goes again.
    """
    sequences, known = begun(), identities()
    first, second, third, fourth, fifth = sent(sequences, known, *map(batch, range(1, 6)))
    for acknowledged in (third, fifth):
        sequences.on_response(acknowledged)
        sequences.on_success(acknowledged)
    assert not sequences.may_send(batch(9), known)
    sequences.on_response(first)
    sequences.on_retry(first)
    assert sequences.may_send(first, known)
    sequences.on_sent(first)
    sequences.on_response(first)
    sequences.on_success(first)
    (sixth,) = sent(sequences, known, batch(6))
    assert not sequences.may_send(batch(9), known)
    for acknowledged in (second, fourth):
        sequences.on_response(acknowledged)
        sequences.on_success(acknowledged)
    assert sequences.outstanding == [sixth]
    sent(sequences, known, *map(batch, range(7, 11)))
    assert not sequences.may_send(batch(11), known)


def test_a_producer_s_first_batch_in_a_partition_goes_alone() -> None:
    """A broker without state of a producer id takes any number for the first.

    A new topic's leader may refuse the first batch, not being ready, and take the one right behind
    it: the records would change places.
    """
    sequences, known = PartitionSequences(), identities()
    (first,) = sent(sequences, known, batch(1, 3))
    assert not sequences.may_send(batch(2), known)
    sequences.on_response(first)
    sequences.on_retry(first)
    assert not sequences.may_send(batch(2), known)
    sent(sequences, known, first)
    sequences.on_response(first)
    sequences.on_success(first)
    second, third = sent(sequences, known, batch(2), batch(3))
    assert (second.sequence, third.sequence) == (3, 4)
    for one in (second, third):
        sequences.on_response(one)
        sequences.on_success(one)
    identity = ProducerIdentity(FIRST.producer_id + 1, 0)
    sent(sequences, identities(identity), batch(4))
    assert not sequences.may_send(batch(5), identities(identity)), "another producer id"
    assert sequences.identity == identity


def test_a_batch_that_goes_again_goes_before_all_others_and_alone() -> None:
    """So that the broker sees numbers in order."""
    sequences, known = begun(), identities()
    first, second = sent(sequences, known, batch(1), batch(2))
    for one in (first, second):
        sequences.on_response(one)
        sequences.on_retry(one)
    assert not sequences.may_send(second, known)
    assert sequences.may_send(first, known)
    sequences.on_sent(first)
    assert first.sequence == 0
    assert not sequences.may_send(second, known)


def test_a_gap_behind_a_refused_batch_begins_a_new_epoch() -> None:
    """KIP-360: what followed cannot be in the log, so it may get new numbers."""
    sequences, known = begun(), identities()
    first, second = sent(sequences, known, batch(1), batch(2))
    sequences.on_response(first)
    sequences.on_failure(first, is_certain=True)
    assert not sequences.may_send(batch(3), known), "the second one is still on the wire"
    sequences.on_response(second)
    sequences.on_retry(second)
    assert second.sequence == -1
    sent(sequences, known, second)
    assert (second.producer_epoch, second.sequence) == (1, 0)


def test_the_last_number_is_used_again_if_its_batch_was_refused() -> None:
    """Nothing was numbered behind it: no epoch is wasted."""
    sequences, known = begun(), identities()
    sent(sequences, known, batch(1))
    (second,) = sent(sequences, known, batch(2, 4))
    sequences.on_response(second)
    sequences.on_failure(second, is_certain=True)
    (third,) = sent(sequences, known, batch(3))
    assert (third.producer_epoch, third.sequence) == (0, 1)


def test_what_may_be_in_the_log_is_never_numbered_anew() -> None:
    """The first batch is given up, nobody knows whether it is there; the second may be there."""
    sequences, known = begun(), identities()
    first, second = sent(sequences, known, batch(1), batch(2))
    for one in (first, second):
        sequences.on_response(one)
    sequences.on_failure(first, is_certain=False)
    sequences.on_retry(second)
    assert not sequences.may_send(batch(3), known)
    sent(sequences, known, second)
    assert (second.producer_epoch, second.sequence) == (0, 1)
    sequences.on_response(second)
    sequences.on_success(second)
    (third,) = sent(sequences, known, batch(3))
    assert (third.producer_epoch, third.sequence) == (0, 2), "the first one was there after all"


def test_doubt_that_nothing_resolves_begins_a_new_epoch() -> None:
    """Nothing is outstanding that could be doubled."""
    sequences, known = begun(), identities()
    (first,) = sent(sequences, known, batch(1))
    sequences.on_response(first)
    sequences.on_failure(first, is_certain=False)
    (second,) = sent(sequences, known, batch(2))
    assert (second.producer_epoch, second.sequence) == (1, 0)


def test_a_partition_keeps_its_epoch_while_something_is_outstanding() -> None:
    """Another partition's restart does not touch it."""
    one, other, known = begun(), begun(), identities()
    (pending,) = sent(one, known, batch(1))
    known.bump(FIRST)
    (fresh,) = sent(other, known, batch(2))
    (behind,) = sent(one, known, batch(3))
    assert (fresh.producer_epoch, behind.producer_epoch) == (1, 0)
    for done in (pending, behind):
        one.on_response(done)
        one.on_success(done)
    (last,) = sent(one, known, batch(4))
    assert (last.producer_epoch, last.sequence) == (1, 0)


def test_the_last_epoch_is_followed_by_another_producer_id() -> None:
    """Epochs are 16 bits; a broker gives the next id."""
    known = identities(ProducerIdentity(1, EPOCH_MAX))
    known.bump(ProducerIdentity(1, EPOCH_MAX))
    assert known.current is None


def test_a_transactional_producer_never_raises_its_epoch_by_itself() -> None:
    """Its coordinator does; until then the partition waits."""
    sequences, known = begun(), identities(is_transactional=True)
    (first,) = sent(sequences, known, batch(1))
    sequences.on_response(first)
    sequences.on_failure(first, is_certain=False)
    assert not sequences.may_send(batch(2), known)
    known.current = ProducerIdentity(1, 1)
    (second,) = sent(sequences, known, batch(2))
    assert (second.producer_epoch, second.sequence) == (1, 0)


def test_the_parts_of_a_batch_share_out_its_numbers() -> None:
    """What follows keeps its own."""
    sequences, known = begun(), identities()
    whole, _ = sent(sequences, known, batch(1, 5), batch(2))
    parts = [batch(1, 3), batch(1, 2)]
    sequences.on_response(whole)
    sequences.split(whole, parts)
    assert [part.sequence for part in parts] == [0, 3]
    assert sequences.may_send(parts[0], known)
    assert not sequences.may_send(parts[1], known)
