"""What this broker tells Prometheus about the transactions that it coordinates and verifies.

Source: MET-6.
"""

from collections.abc import Iterator

from barnabas_broker.coordinator.transaction.coordinator import TransactionCoordinator
from barnabas_broker.coordinator.transaction.verification import TransactionVerification
from barnabas_broker.metrics.sample import Sample

_COUNTERS = (
    ("committed_total", "Transactions whose commit markers are all written.", "committed_count"),
    ("aborted_total", "Transactions whose abort markers are all written.", "aborted_count"),
    ("timed_out_total", "Transactions aborted because they were open too long.", "timed_out_count"),
    ("fenced_total", "Transactions aborted because another producer began.", "fenced_count"),
    ("ids_expired_total", "Transactional ids forgotten because nobody used them.", "expired_count"),
    (
        "append_failures_total",
        "Appends to the transaction state topic that failed.",
        "append_failure_count",
    ),
)


def transaction_samples(
    coordinator: TransactionCoordinator, verification: TransactionVerification
) -> Iterator[Sample]:
    """States, ages, markers and counters."""
    for state, count in coordinator.count_by_state().items():
        yield Sample(
            "barnabas_transactional_ids",
            "gauge",
            "Transactional ids by state.",
            {"state": state.kafka_name},
            count,
        )
    yield Sample(
        "barnabas_transaction_open_oldest_seconds",
        "gauge",
        "For how long the oldest open transaction has been open, 0 if none is.",
        {},
        coordinator.oldest_open_ms() / 1000,
    )
    yield Sample(
        "barnabas_transactions_ending",
        "gauge",
        "Transactions that are decided and wait for their markers.",
        {},
        coordinator.markers.ending_count,
    )
    for name, text, attribute in _COUNTERS:
        value = getattr(coordinator.metrics, attribute)
        yield Sample(f"barnabas_transaction_{name}", "counter", text, {}, value)
    yield Sample(
        "barnabas_transaction_markers_sent_total",
        "counter",
        "Markers that partitions have acknowledged.",
        {},
        coordinator.markers.sent_count,
    )
    yield Sample(
        "barnabas_transaction_marker_retries_total",
        "counter",
        "Markers that are sent again because their partition did not take them.",
        {},
        coordinator.markers.failed_count,
    )
    yield Sample(
        "barnabas_transaction_verifications_total",
        "counter",
        "Requests to coordinators before a producer's first append in a transaction.",
        {},
        verification.asked_count,
    )
    yield Sample(
        "barnabas_transaction_load_ms",
        "gauge",
        "How long loading a partition of the transaction state topic took last.",
        {},
        coordinator.runtime.load_ms_last,
    )
