"""`python -m benchmarks.operator_scale`: what many resources cost the operator.

The whole operator, kopf included, is in this process; Kubernetes is in another one, and brokers are
objects in memory, so that processor time and memory are the operator's. Told are the time until all
is ready, what was asked of the API server by then, the longest that one callback held the event
loop, and then what idleness costs, and one changed Topic.
"""

from __future__ import annotations

import argparse
import asyncio
import asyncio.events
import gc
import multiprocessing
import resource
import tempfile
import time
from collections import Counter
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, cast

from barnabas_client.env import SystemClock
from barnabas_operator.garbage import ShortCollections
from barnabas_operator.operator_process import OperatorProcess, Reconciler
from barnabas_operator.reconcile.broker.broker_reconciler import BrokerReconciler
from barnabas_operator.reconcile.group.group_reconciler import GroupReconciler
from barnabas_operator.reconcile.topic_reconciler import TopicReconciler
from barnabas_operator.settings import OperatorSettings
from barnabas_operator.work.key import KeyKind
from benchmarks.operator_scale.cluster import NAMESPACE, Size, serve
from tests.support.willing_brokers import AllBrokers, Groups

_LONG_SECONDS = 0.010
_SETTLE_SECONDS = 10
_TOUCHED_SECONDS = 3


class LoopHolds:
    """How long callbacks have held the event loop."""

    def __init__(self) -> None:
        self.longest_seconds = 0.0
        self.longest = ""
        self.long_ones: Counter[str] = Counter()
        self._collected_seconds = self._collection_began = 0.0
        self.longest_collection_seconds = 0.0

    def watch(self) -> None:
        """Time every callback, and every collection of garbage in one, from now on."""
        gc.callbacks.append(self._collected)
        real: Any = asyncio.events.Handle._run

        def run(handle: Any) -> None:
            # Its processor time: what other processes take of the machine is none of its doing.
            started = time.thread_time()
            real(handle)
            seconds = time.thread_time() - started - self._collected_seconds
            self._collected_seconds = 0.0
            if seconds > _LONG_SECONDS:
                self.long_ones[_described(handle)] += 1
            if seconds > self.longest_seconds:
                self.longest_seconds, self.longest = seconds, _described(handle)

        setattr(asyncio.events.Handle, "_run", run)  # noqa: B010 — a method of another's class

    def _collected(self, phase: str, info: Any) -> None:
        if phase == "start":
            self._collection_began = time.thread_time()
            return
        seconds = time.thread_time() - self._collection_began
        self._collected_seconds += seconds
        self.longest_collection_seconds = max(self.longest_collection_seconds, seconds)

    def take(self) -> str:
        """What to tell of them since the last time."""
        found = (
            f"{self.longest_seconds * 1000:.0f} ms ({self.longest}),"
            f" {self.long_ones.total()} over {_LONG_SECONDS * 1000:.0f} ms {dict(self.long_ones)};"
            f" garbage collected in {self.longest_collection_seconds * 1000:.0f} ms at most"
        )
        self.longest_seconds, self.longest, self.long_ones = 0.0, "", Counter()
        self.longest_collection_seconds = 0.0
        return found


class MeasuredOperator(OperatorProcess):
    """The operator with brokers in memory."""

    def __init__(self, settings: OperatorSettings) -> None:
        super().__init__(settings)
        self._brokers = AllBrokers()

    def _reconcilers(self, *shared: Any) -> dict[KeyKind, Reconciler]:
        brokers: Any = self._brokers
        api, _, cache = shared
        common = api, brokers, self.settings, SystemClock(), cache
        return {
            KeyKind.TOPICS: TopicReconciler(
                *common,
                counted=self.metrics.resources,
                make_gateway=lambda admin: brokers.topics(cast("Any", admin).broker_name),
            ),
            KeyKind.GROUPS: GroupReconciler(*common, make_gateway=lambda admin: Groups()),
            KeyKind.BROKER: BrokerReconciler(
                api,
                brokers,
                self.settings,
                SystemClock(),
                clusters=brokers,
                processes=brokers,
                changes_of=cache.changes_of,
            ),
        }


def main() -> None:
    """Measure one size."""
    arguments = _parse()
    size = Size(brokers=arguments.brokers, topics=arguments.topics, groups=arguments.groups)
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe()
    with tempfile.TemporaryDirectory(prefix="barnabas-operator-scale-") as directory:
        cluster = context.Process(target=serve, args=(size, Path(directory), theirs))
        cluster.start()
        try:
            assert ours.recv() == "ready"
            asyncio.run(_measure(size, Path(directory), ours, arguments))
        finally:
            ours.send("stop")
            cluster.join(10)
            cluster.kill()


async def _measure(
    size: Size, directory: Path, cluster: Connection, arguments: argparse.Namespace
) -> None:
    holds = LoopHolds()
    settings = OperatorSettings(
        kubeconfig=str(directory / "kubeconfig"),
        operator_namespace=NAMESPACE,
        http_host="127.0.0.1",
        http_port=0,
    )
    print(f"{size.brokers} Brokers, {size.topics} Topics, {size.groups} ConsumerGroups")
    memory_before = _memory_mib("VmRSS")
    ShortCollections().install()  # as the operator's own main does
    operator = MeasuredOperator(settings)
    holds.watch()
    started, processor = time.perf_counter(), time.process_time()
    task = asyncio.create_task(operator.run())
    await asyncio.sleep(0)
    limit = started + arguments.limit_seconds
    while (unready := await _ask(cluster, "unready")) and time.perf_counter() < limit:
        assert not task.done(), task
        await asyncio.sleep(0.25)
    print(f"until all are ready: {time.perf_counter() - started:.1f} s, {unready} are not")
    print(f"  processor {time.process_time() - processor:.1f} s, loop held {holds.take()}")
    _tell_requests(await _ask(cluster, "requests"))
    await asyncio.sleep(_SETTLE_SECONDS)
    print(f"after {_SETTLE_SECONDS} s more: {_passes(operator)}, loop held {holds.take()}")
    _tell_requests(await _ask(cluster, "requests"))
    started, processor = time.perf_counter(), time.process_time()
    await asyncio.sleep(arguments.idle_seconds)
    share = 60 / (time.perf_counter() - started)
    print(f"idle, per minute: processor {(time.process_time() - processor) * share:.2f} s")
    print(f"  loop held {holds.take()}, {_passes(operator)}")
    _tell_requests(await _ask(cluster, "requests"), share)
    await _touch_one(cluster)
    gc.collect()
    print(
        f"memory: {_memory_mib('VmRSS'):.0f} MiB, {_memory_mib('VmHWM'):.0f} MiB at most,"
        f" {memory_before:.0f} MiB before it began"
    )
    operator.stop()
    await task


async def _touch_one(cluster: Connection) -> None:
    """What it costs that one Topic of all is changed."""
    await _ask(cluster, "requests")
    processor = time.process_time()
    await _ask(cluster, "touch topic-00000")
    await asyncio.sleep(_TOUCHED_SECONDS)
    assert not await _ask(cluster, "unready")
    counts = await _ask(cluster, "requests")
    chosen = {name: count for name, count in counts.items() if "topics" in name}
    print(f"one changed Topic: processor {time.process_time() - processor:.2f} s")
    _tell_requests(Counter(chosen))


async def _ask(cluster: Connection, question: str) -> Any:
    def ask() -> Any:
        cluster.send(question)
        return cluster.recv()

    return await asyncio.to_thread(ask)


def _tell_requests(counts: Counter[str], share: float = 1.0) -> None:
    total = sum(counts.values())
    rows = ", ".join(f"{name} {count * share:.0f}" for name, count in counts.most_common())
    print(f"  requests {total * share:.0f}: {rows}")


def _passes(operator: OperatorProcess) -> str:
    found = []
    for work in KeyKind:
        value = operator.metrics.registry.get_sample_value(
            "barnabas_operator_reconciles_total", {"kind": str(work), "result": "done"}
        )
        found.append(f"{work} {value or 0:.0f}")
    return f"passes so far: {', '.join(found)}"


def _described(handle: Any) -> str:
    """What the callback belongs to: the task's coroutine where it is one."""
    owner = getattr(handle._callback, "__self__", None)
    if isinstance(owner, asyncio.Task):
        code: Any = owner.get_coro()
        return str(getattr(code, "__qualname__", code))
    return str(getattr(handle._callback, "__qualname__", handle._callback))


def _memory_mib(field: str) -> float:
    """A line of what Linux tells of this process, or its most where that is not told."""
    try:
        lines = Path("/proc/self/status").read_text(encoding="ascii").splitlines()
    except OSError:
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    (line,) = (one for one in lines if one.startswith(f"{field}:"))
    return int(line.split()[1]) / 1024


def _parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.operator_scale")
    parser.add_argument("--brokers", type=int, default=50)
    parser.add_argument("--topics", type=int, default=5000)
    parser.add_argument("--groups", type=int, default=100)
    parser.add_argument("--idle-seconds", type=float, default=60)
    parser.add_argument("--limit-seconds", type=float, default=900)
    return parser.parse_args()


if __name__ == "__main__":
    main()
