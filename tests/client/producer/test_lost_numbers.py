"""Batches that lost their numbers, beside some that keep theirs."""

from barnabas_client.config.producer_settings import ProducerSettings
from barnabas_client.errors import ClientBrokenError
from barnabas_protocol.errors import ErrorCode
from tests.client.producer.scripted_cluster import ScriptedCluster


def answer_one(cluster: ScriptedCluster) -> None:
    cluster.turn()
    cluster.take(1)
    cluster.answer(1)


def test_a_batch_in_doubt_goes_before_one_in_front_of_it_that_lost_its_number() -> None:
    """Each waited for the other until the time of the first was over, and the partition stood."""
    settings = {"bootstrap_servers": "x:1", "linger_ms": 0, "batch_size": 1}
    cluster = ScriptedCluster(ProducerSettings.create(settings))
    for _ in range(2):
        cluster.send(0)
        answer_one(cluster)
    log = cluster.logs[0]  # an unclean election: the new leader lacks the second record
    log.numbers.pop()
    log.recent.pop()
    for _ in range(2):
        cluster.send(0)
        cluster.turn()
    cluster.take(1)
    cluster.answer(1)  # the first is out of order: it is to go with other numbers
    cluster.disconnect(1)  # and nobody knows of the second
    for _ in range(100):
        cluster.refresh()
        answer_one(cluster)
        cluster.now_ms += 20
    *_, first, second = [delivery for *_, delivery in cluster.deliveries]
    assert first.done()
    assert first.exception() is None
    assert second.done()
    cluster.send(0)
    answer_one(cluster)
    *_, newest = cluster.deliveries[-1]
    assert newest.exception() is None


def test_what_a_broken_broker_refused_may_be_in_the_log() -> None:
    """The next record got the numbers of one that was there, and counted as that, repeated."""
    settings = {"bootstrap_servers": "x:1", "linger_ms": 0, "batch_size": 1}
    cluster = ScriptedCluster(ProducerSettings.create(settings))
    cluster.send(0)
    answer_one(cluster)
    cluster.doubtful_once[0] = ErrorCode.UNKNOWN_SERVER_ERROR
    cluster.send(0)
    answer_one(cluster)
    *_, refused = cluster.deliveries[-1]
    error = refused.exception()
    assert isinstance(error, ClientBrokenError)
    assert error.is_in_doubt
    cluster.send(0)
    cluster.settle()
    *_, number, newest = cluster.deliveries[-1]
    assert newest.exception() is None
    assert cluster.logs[0].numbers == [0, 1, number]
