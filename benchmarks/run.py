"""`python -m benchmarks.run`: measures Apache Kafka and Barnabas in turn and prints the ratios."""

from __future__ import annotations

import argparse
import datetime
import shutil
import signal
import sys
import tempfile
import traceback
from collections.abc import Sequence
from pathlib import Path

from benchmarks.clients import Conditions
from benchmarks.quiet import wait_until_idle
from benchmarks.report import Report
from benchmarks.scenario import Scenario, medians
from benchmarks.scenarios import ALL
from benchmarks.trial import KINDS, Trial

#: The newest; its clients and those of the scenarios may be of another version.
PEER_VERSION = "4.4.0"

# The largest scenario writes 5 GiB; it is removed before the next one begins.
_FREE_BYTES_MIN = 8 << 30


def main() -> int:
    """Runs the chosen scenarios; the exit code says whether all of them could be measured."""
    arguments = _parse()
    # A stop from outside unwinds as Ctrl-C does: brokers are stopped and data is removed.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    Conditions.patience_seconds = arguments.patience
    names = {scenario.name for scenario in ALL}
    if unknown := set(arguments.scenario) - names:
        print(f"unknown: {', '.join(sorted(unknown))}; there are: {', '.join(sorted(names))}")
        return 2
    chosen = [s for s in ALL if not arguments.scenario or s.name in arguments.scenario]
    report = Report("quick" if arguments.quick else "latest")
    failures = 0
    root = Path(tempfile.mkdtemp(prefix="barnabas-bench-", dir=arguments.directory))
    try:
        if shutil.disk_usage(root).free < _FREE_BYTES_MIN:
            print(f"{root} has less than {_FREE_BYTES_MIN >> 30} GiB free; choose --directory")
            return 2
        trials = [
            Trial(
                kind,
                root / kind,
                is_quick=arguments.quick,
                repeat_count=arguments.repeat,
                peer_version=arguments.peer,
            )
            for kind in ([arguments.only] if arguments.only else KINDS)
        ]
        for scenario in chosen:
            failures += not _measure(scenario, trials, arguments.rounds, report)
    finally:
        shutil.rmtree(root, ignore_errors=True)
    print()
    print(report.table(chosen))
    path = report.write_markdown(ALL, f"Apache Kafka {arguments.peer}")
    print(f"\nAll results: {path} and {report.path.name} beside it.")
    return 1 if failures else 0


def _measure(scenario: Scenario, trials: Sequence[Trial], round_count: int, report: Report) -> bool:
    """One scenario, the brokers in turn in each round; a failure is told and ends this one."""
    rounds: dict[str, list[dict[str, float]]] = {trial.kind: [] for trial in trials}
    others: dict[str, float] = {}
    began = datetime.datetime.now(tz=datetime.UTC).strftime("%Y-%m-%d %H:%M UTC")
    for number in range(1, round_count + 1):
        for trial in trials:
            print(f"{scenario.name}, {number}: {trial.kind} ...", end=" ", flush=True)
            Conditions.others_shares.clear()
            wait_until_idle(Conditions.patience_seconds)
            try:
                figures = scenario.measure(trial)
            except Exception:
                print("failed")
                traceback.print_exc()
                return False
            finally:
                shutil.rmtree(trial.directory, ignore_errors=True)
            rounds[trial.kind].append(figures)
            told = ", ".join(f"{name} {value:,.4g}" for name, value in figures.items())
            if shares := Conditions.others_shares:
                others[trial.kind] = max(others.get(trial.kind, 0.0), *shares)
                told += f" (others had up to {max(shares):.0%} of the machine)"
            print(told)
    for kind, measured in rounds.items():
        report.add(scenario, kind, medians(measured), began, others.get(kind))
    return True


def _parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="benchmarks", description=__doc__)
    parser.add_argument("scenario", nargs="*", help="names; all when none is given")
    parser.add_argument("--quick", action="store_true", help="small sizes: does it work at all?")
    parser.add_argument(
        "--only", choices=KINDS, help="measure one broker, keep the other's figures"
    )
    parser.add_argument("--repeat", type=int, default=3, help="measured runs, the median counts")
    parser.add_argument(
        "--rounds", type=int, default=2, help="rounds of both brokers in turn, the median counts"
    )
    parser.add_argument("--peer", default=PEER_VERSION, help="the version of Apache Kafka")
    parser.add_argument(
        "--patience",
        type=float,
        default=20.0,
        help="seconds to wait before each client run until the machine is idle",
    )
    parser.add_argument("--directory", help="where brokers keep their data meanwhile")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
