"""Which isolation a history of transactions over lists has broken: cycles, dirty and torn reads.

Transactions append values that are there once to the lists of keys, and read such lists. As a list
shows all that was appended before, the newest read of a key gives the order of its versions, and
with that who depends on whom:

- ww: one appended right after another;
- wr: one has read another's append as the last of a list;
- rw: one has read a list that did not have another's append yet;
- rt: one had ended before another began, for those that say when they did.

A cycle is an anomaly, named by what it is made of. Pure. What it is not: a proof of the order in
which somebody saw several lists that no transaction read together.

Source: Adya, "Weak Consistency" (1999), for G0 to G2; Kingsbury and Alvaro, "Elle" (VLDB 2020).
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum, StrEnum
from itertools import pairwise
from typing import NamedTuple

Key = tuple[str, int]
Value = str


class Outcome(Enum):
    """What became of a transaction, as far as its client was told."""

    COMMITTED = "committed"
    ABORTED = "aborted"
    IN_DOUBT = "in doubt"


class Append(NamedTuple):
    """A value that was to be put behind a list."""

    key: Key
    value: Value


class Read(NamedTuple):
    """What a list held."""

    key: Key
    values: tuple[Value, ...]


@dataclass
class ListTransaction:
    """What one transaction did, in order; `began` and `ended` only where real time counts."""

    name: str
    steps: list[Append | Read] = field(default_factory=list)
    outcome: Outcome = Outcome.IN_DOUBT
    began: float | None = None
    ended: float | None = None


class Kind(StrEnum):
    """The ways in which a history can be wrong."""

    STRANGE = "a value of nobody"
    DOUBLED = "a value twice"
    INCOMPATIBLE = "two orders of one list"
    LOST = "a committed append is lost"
    ABORTED_READ = "G1a, an aborted read"
    INTERMEDIATE_READ = "G1b, an intermediate read"
    WRITE_CYCLE = "G0, a cycle of writes"
    CIRCULAR_FLOW = "G1c, circular information flow"
    SINGLE = "G-single, a cycle with one anti-dependency"
    ANTI_DEPENDENCIES = "G2, a cycle with anti-dependencies"


class Anomaly(NamedTuple):
    """One way in which a history is wrong, and where it shows."""

    kind: Kind
    what: str

    def __str__(self) -> str:
        return f"{self.kind}: {self.what}"


class _Edge(StrEnum):
    WW = "ww"
    WR = "wr"
    RW = "rw"
    RT = "rt"


Graph = Mapping[int, Mapping[int, _Edge]]


def anomalies(
    transactions: Sequence[ListTransaction], final: Mapping[Key, Sequence[Value]]
) -> list[Anomaly]:
    """What is wrong with a history, one of each kind of cycle; `final` is each list in the end.

    One in doubt counts as committed as soon as anybody who counts has seen an append of it.
    """
    return _History(transactions, final).anomalies()


class _History:
    def __init__(
        self, transactions: Sequence[ListTransaction], final: Mapping[Key, Sequence[Value]]
    ) -> None:
        self._all = transactions
        self._final = {key: tuple(values) for key, values in final.items()}
        self._writers: dict[tuple[Key, Value], int] = {}
        self._appended: defaultdict[tuple[int, Key], list[Value]] = defaultdict(list)
        for number, one in enumerate(transactions):
            for step in one.steps:
                if isinstance(step, Append):
                    self._writers[step.key, step.value] = number
                    self._appended[number, step.key].append(step.value)
        self._effective = self._find_effective()
        self._reads = [
            (number, Read(read.key, self._without_own_end(number, read)))
            for number in self._effective
            for read in _reads_of(transactions[number])
        ]
        self._orders = self._find_orders()

    def _find_effective(self) -> list[int]:
        """Return those that were committed: told so, or seen by one that was."""
        effective = {
            number for number, one in enumerate(self._all) if one.outcome is Outcome.COMMITTED
        }
        fresh = [Read(key, values) for key, values in self._final.items()]
        fresh += [read for number in effective for read in _reads_of(self._all[number])]
        while fresh:
            seen = {self._writers.get((read.key, value)) for read in fresh for value in read.values}
            new = {
                number
                for number in seen - effective
                if number is not None and self._all[number].outcome is Outcome.IN_DOUBT
            }
            effective |= new
            fresh = [read for number in new for read in _reads_of(self._all[number])]
        return sorted(effective)

    def _without_own_end(self, number: int, read: Read) -> tuple[Value, ...]:
        """Return what others had appended, where a read shows its own appends behind that."""
        values = read.values
        while values and self._writers.get((read.key, values[-1])) == number:
            values = values[:-1]
        return values

    def _find_orders(self) -> dict[Key, tuple[Value, ...]]:
        orders = dict(self._final)
        for _, read in self._reads:
            if len(read.values) > len(orders.get(read.key, ())):
                orders[read.key] = read.values
        return orders

    # ---- single reads --------------------------------------------------------------------------

    def anomalies(self) -> list[Anomaly]:
        """All that is wrong."""
        return [*self._wrong_reads(), *self._lost(), *self._cycles()]

    def _wrong_reads(self) -> Iterable[Anomaly]:
        finals = [(None, Read(key, values)) for key, values in self._final.items()]
        told: set[tuple[Kind, Key, Value]] = set()
        for number, read in (*self._reads, *finals):
            reader = "in the end" if number is None else self._all[number].name
            for kind, value in self._wrong_in(number, read):
                if (kind, read.key, value) not in told:
                    told.add((kind, read.key, value))
                    yield Anomaly(kind, f"{value!r} of {read.key}, seen by {reader}")

    def _wrong_in(self, number: int | None, read: Read) -> Iterable[tuple[Kind, Value]]:
        order = self._orders[read.key]
        for place, value in enumerate(read.values):
            if value in read.values[:place]:
                yield Kind.DOUBLED, value
            writer = self._writers.get((read.key, value))
            if writer is None:
                yield Kind.STRANGE, value
            elif self._all[writer].outcome is Outcome.ABORTED and writer != number:
                yield Kind.ABORTED_READ, value
            if order[place] != value:
                yield Kind.INCOMPATIBLE, value
                return
        if not read.values:
            return
        last = read.values[-1]
        writer = self._writers.get((read.key, last))
        if writer is not None and writer != number and self._appended[writer, read.key][-1] != last:
            yield Kind.INTERMEDIATE_READ, last

    def _lost(self) -> Iterable[Anomaly]:
        for number in self._effective:
            for step in self._all[number].steps:
                if isinstance(step, Append) and step.value not in self._orders.get(step.key, ()):
                    yield Anomaly(
                        Kind.LOST, f"{step.value!r} of {step.key} by {self._all[number].name}"
                    )

    # ---- cycles --------------------------------------------------------------------------------

    def _cycles(self) -> Iterable[Anomaly]:
        edges = self._edges()
        writes = _graph(edges, {_Edge.WW, _Edge.RT})
        flow = _graph(edges, {_Edge.WW, _Edge.WR, _Edge.RT})
        everything = _graph(edges, set(_Edge))
        searches: tuple[tuple[Kind, Graph, _Edge, Graph], ...] = (
            (Kind.WRITE_CYCLE, _graph(edges, {_Edge.WW}), _Edge.WW, writes),
            (Kind.CIRCULAR_FLOW, _graph(edges, {_Edge.WR}), _Edge.WR, flow),
            (Kind.SINGLE, _graph(edges, {_Edge.RW}), _Edge.RW, flow),
            (Kind.ANTI_DEPENDENCIES, _graph(edges, {_Edge.RW}), _Edge.RW, everything),
        )
        for kind, firsts, edge, rest in searches:
            cycle = _cycle(firsts, edge, rest)
            if cycle is None or (kind is Kind.ANTI_DEPENDENCIES and _rw_count(cycle) < 2):
                continue
            yield Anomaly(kind, self._told(cycle))

    def _edges(self) -> list[tuple[int, int, _Edge]]:
        edges: list[tuple[int, int, _Edge]] = []
        for key, order in self._orders.items():
            writers = [self._writers.get((key, value)) for value in order]
            for before, after in pairwise(writers):
                if before is not None and after is not None:
                    edges.append((before, after, _Edge.WW))
        for number, read in self._reads:
            order = self._orders[read.key]
            if order[: len(read.values)] != read.values:
                continue  # of another order: who comes after it cannot be said
            if read.values:
                writer = self._writers.get((read.key, read.values[-1]))
                if writer is not None:
                    edges.append((writer, number, _Edge.WR))
            for value in order[len(read.values) :]:
                writer = self._writers.get((read.key, value))
                if writer is not None and writer != number:
                    edges.append((number, writer, _Edge.RW))
                    break
        timed = [(number, self._all[number]) for number in self._effective]
        for number, one in timed:
            for other, later in timed:
                if one.ended is not None and later.began is not None and one.ended < later.began:
                    edges.append((number, other, _Edge.RT))
        return [edge for edge in edges if edge[0] != edge[1]]

    def _told(self, cycle: list[tuple[int, _Edge]]) -> str:
        names = [f"{self._all[number].name} -{edge}->" for number, edge in cycle]
        return " ".join([*names, self._all[cycle[0][0]].name])


def _reads_of(transaction: ListTransaction) -> list[Read]:
    return [step for step in transaction.steps if isinstance(step, Read)]


def _graph(edges: Iterable[tuple[int, int, _Edge]], kinds: set[_Edge]) -> Graph:
    """Who depends on whom; of several reasons the strongest."""
    strength: Callable[[_Edge], int] = list(_Edge).index
    graph: defaultdict[int, dict[int, _Edge]] = defaultdict(dict)
    for before, after, edge in edges:
        if edge in kinds:
            graph[before][after] = min(edge, graph[before].get(after, edge), key=strength)
    return graph


def _cycle(firsts: Graph, edge: _Edge, rest: Graph) -> list[tuple[int, _Edge]] | None:
    """Return a shortest way back from an edge of one kind to where it begins, None without one."""
    for start, afters in firsts.items():
        for first in afters:
            path = _path(first, start, rest)
            if path is not None:
                return [(start, edge), *path]
    return None


def _path(start: int, end: int, graph: Graph) -> list[tuple[int, _Edge]] | None:
    came_from: dict[int, tuple[int, _Edge]] = {}
    front = [start]
    while front:
        following = []
        for number in front:
            for after, edge in graph.get(number, {}).items():
                if after in came_from or after == start:
                    continue
                came_from[after] = number, edge
                if after == end:
                    path = []
                    while after != start:
                        after, edge = came_from[after]
                        path.append((after, edge))
                    return path[::-1]
                following.append(after)
        front = following
    return None


def _rw_count(cycle: list[tuple[int, _Edge]]) -> int:
    return sum(edge is _Edge.RW for _, edge in cycle)
