"""What this broker tells Prometheus about its two queues: the turns of the loop and the controller.

Read at scrape time from the objects that own the numbers. Source: MET-1, CTL-8.
"""

from collections.abc import Iterator

from barnabas_broker.controller.controller import Controller
from barnabas_broker.metrics.sample import Sample
from barnabas_broker.network.turn import Turn

_SECONDS_PER_NS = 1e-9


def turn_samples(turn: Turn) -> Iterator[Sample]:
    """The turns that wrote or sent something."""
    for name, text, value in (
        ("turns", "Turns of the loop that wrote or sent something.", turn.turn_count),
        ("turn_failures", "What failed at the end of a turn.", turn.failure_count),
    ):
        yield Sample(f"barnabas_{name}_total", "counter", text, {}, value)


def controller_samples(controller: Controller) -> Iterator[Sample]:
    """The controller's queue of commands."""
    counted = controller.metrics
    for name, kind, text, value in (
        ("active", "gauge", "1 on the active controller.", int(controller.is_active)),
        ("queue_length", "gauge", "Commands that wait.", controller.queue_length),
        ("commands_total", "counter", "Commands decided.", counted.events_count),
        (
            "command_failures_total",
            "counter",
            "Commands that failed by a fault of ours.",
            counted.failed_count,
        ),
        (
            "queue_seconds_total",
            "counter",
            "Time that commands waited to be decided.",
            counted.queue_time_ns * _SECONDS_PER_NS,
        ),
        (
            "processing_seconds_total",
            "counter",
            "Time that deciding took.",
            counted.processing_time_ns * _SECONDS_PER_NS,
        ),
    ):
        yield Sample(f"barnabas_controller_{name}", kind, text, {}, value)
