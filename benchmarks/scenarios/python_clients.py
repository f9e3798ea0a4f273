"""How do the Python clients compare: records a second, and processor time per record?

Four clients do the same, one after the other and in turn, on the same broker: ours, aiokafka,
kafka-python and confluent-kafka. One partition; acks=all, linger 5 ms and batches of 16 KiB for all
producers (idempotent where that is the client's default: only ours), up to 500 records a poll for
all consumers, which verify checksums and belong to no group. The CPU is that of the client's
process alone, behind a warm-up.
"""

from __future__ import annotations

import sys
from functools import partial
from statistics import median

from benchmarks import clients
from benchmarks.scenario import Figure, Scenario
from benchmarks.trial import Broker, Trial, log_end_offset
from tests.support.cache import python_environment

_REQUIREMENTS = clients.REPOSITORY / "tests" / "interop" / "requirements" / "modern.txt"
_OURS = "ours"
_OUR_PROGRAM = "barnabas_client_program"
#: Name in the report, module of the program, and the part of the records it gets: a slow client
#: would otherwise take minutes.
_CLIENTS = [
    (_OURS, _OUR_PROGRAM, 1.0),
    ("aiokafka", "aiokafka_client", 0.7),
    ("kafka-python", "kafka_python_client", 0.15),
    ("confluent-kafka", "confluent_client", 1.0),
]
_COLUMNS = "ours, columns"
_RATE = "{}: records/s"
_CPU = "{}: CPU per record"
_RATE_RATIO = "ours / aiokafka: records/s"
_CPU_RATIO = "ours / aiokafka: CPU per record"

Runs = dict[str, list[tuple[float, float]]]


def _figures(
    names: list[str], *, rate_goal: float, cpu_goal: float | None, columns_goal: float | None = None
) -> list[Figure]:
    figures = []
    for name in names:
        goal = columns_goal if name == _COLUMNS else None
        figures += [
            Figure(name=_RATE.format(name), unit="1/s", is_lower_better=False, goal_value=goal),
            Figure(name=_CPU.format(name), unit="µs", is_lower_better=True),
        ]
    return [
        *figures,
        Figure(name=_RATE_RATIO, unit="x", is_lower_better=False, goal_value=rate_goal),
        Figure(name=_CPU_RATIO, unit="x", is_lower_better=True, goal_value=cpu_goal),
    ]


def measure_produce(trial: Trial, *, record_bytes: int, full: int) -> dict[str, float]:
    """Every client writes to a topic of its own; what has arrived is asked of the broker."""
    runs: Runs = {}
    with trial.broker() as broker:
        for turn in range(trial.repeat_count):
            for name, module, share in _CLIENTS:
                topic = f"produce-{module}-{turn}"
                clients.create_topic(broker, topic)
                count = trial.size(int(full * share), int(full * share) // 20)
                warm_up_count = count // 4
                numbers = (warm_up_count, count, record_bytes)
                _run(broker, runs, name, module, "produce", topic, *numbers)
                arrived = log_end_offset(broker.port, topic)
                if arrived != warm_up_count + count:
                    raise RuntimeError(f"{name}: {arrived} of {warm_up_count + count} records")
    return _results(runs)


def measure_consume(
    trial: Trial, *, record_bytes: int, full: int, columns_factor: int, spread_bytes: int = 0
) -> dict[str, float]:
    """Every client reads the same records from the start; what Java's producer wrote.

    Sizes lie `spread_bytes` around `record_bytes`, in no order.
    """
    runs: Runs = {}
    count_max = trial.size(full * columns_factor, full * columns_factor // 20)
    warm_up_count = trial.size(full // 10, full // 200)
    with trial.broker() as broker:
        clients.create_topic(broker, "consume")
        payloads = None
        if spread_bytes:
            payloads = broker.directory / "payloads"
            sizes = range(record_bytes - spread_bytes, record_bytes + spread_bytes + 1)
            payloads.write_text("\n".join("x" * size for size in sizes))
        record_count = count_max + warm_up_count
        clients.produce(
            broker, "consume", record_count, record_bytes, "acks=all", payloads=payloads
        )
        for _ in range(trial.repeat_count):
            for name, module, share in _CLIENTS:
                count = trial.size(int(full * share), int(full * share) // 20)
                numbers = (warm_up_count, count, record_bytes)
                _run(broker, runs, name, module, "consume", "consume", *numbers)
            numbers = (warm_up_count, count_max, record_bytes)
            _run(broker, runs, _COLUMNS, _OUR_PROGRAM, "columns", "consume", *numbers)
    return _results(runs)


def _run(
    broker: Broker, runs: Runs, name: str, module: str, what: str, topic: str, *numbers: int
) -> None:
    """One run of one client, added to the runs: records a second and microseconds of CPU each."""
    python = sys.executable
    if module != _OUR_PROGRAM:
        python = str(python_environment("modern", _REQUIREMENTS))
    arguments = [what, broker.bootstrap, topic, *map(str, numbers)]
    found = clients.run_python(broker, python, module, arguments)
    rate = found["count"] / found["seconds"]
    runs.setdefault(name, []).append((rate, found["cpu_seconds"] / found["count"] * 1e6))


def _results(runs: Runs) -> dict[str, float]:
    """Medians, and ratios of medians."""
    results = {}
    for name, found in runs.items():
        results[_RATE.format(name)] = median(rate for rate, _ in found)
        results[_CPU.format(name)] = median(cpu for _, cpu in found)
    for name, ratio in ((_RATE, _RATE_RATIO), (_CPU, _CPU_RATIO)):
        results[ratio] = results[name.format(_OURS)] / results[name.format("aiokafka")]
    return results


_NAMES = [name for name, _, _ in _CLIENTS]
# Issue 4: produce at twice aiokafka's rate and half its CPU, read at its rate, a million records a
# second as columns.
_PRODUCE = _figures(_NAMES, rate_goal=2.0, cpu_goal=0.5)
_CONSUME_SMALL = _figures([*_NAMES, _COLUMNS], rate_goal=1.0, cpu_goal=None, columns_goal=1_000_000)
_CONSUME_LARGE = _figures([*_NAMES, _COLUMNS], rate_goal=1.0, cpu_goal=None)

SCENARIOS = [
    Scenario(
        name="clients-produce-100b",
        question="Python clients produce 100 B records, acks=all",
        figures=_PRODUCE,
        measure=partial(measure_produce, record_bytes=100, full=600_000),
    ),
    Scenario(
        name="clients-produce-1k",
        question="Python clients produce 1 KiB records, acks=all",
        figures=_PRODUCE,
        measure=partial(measure_produce, record_bytes=1024, full=300_000),
    ),
    Scenario(
        name="clients-consume-100b",
        question="Python clients consume 100 B records",
        figures=_CONSUME_SMALL,
        measure=partial(measure_consume, record_bytes=100, full=2_000_000, columns_factor=2),
    ),
    Scenario(
        name="clients-consume-mixed",
        question="Python clients consume records of 50 to 150 B",
        figures=_CONSUME_SMALL,
        measure=partial(
            measure_consume, record_bytes=100, full=2_000_000, columns_factor=2, spread_bytes=50
        ),
    ),
    Scenario(
        name="clients-consume-1k",
        question="Python clients consume 1 KiB records",
        figures=_CONSUME_LARGE,
        measure=partial(measure_consume, record_bytes=1024, full=500_000, columns_factor=2),
    ),
]
