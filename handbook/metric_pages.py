"""A hook of MkDocs: the page of all metrics, read from the code that tells them, and kept nowhere.

What is read is the syntax of the modules, so that nothing of ours has to run or to be installed:
every call that makes a sample of a broker, a metric of the operator or a family of the console.
Where a name or a text comes from a table, `for name, text, value in (…)`, there is a metric for
each of its rows. A call that is made in a way that is not understood here is an error, never left
out; `tests/test_metric_pages.py` holds the page against what brokers, operator and console expose.
In a clone the same is read with `curl http://broker:9644/metrics`.
"""

import ast
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any, Final

ROOT = Path(__file__).resolve().parent.parent
PAGE: Final = "reference/metrics.md"
_BROKER: Final = ROOT / "broker" / "barnabas_broker"
# What `prometheus_client.ProcessCollector` tells of every process.
PROCESS: Final = {
    "process_cpu_seconds_total": ("counter", "CPU time, of user and system."),
    "process_max_fds": ("gauge", "How many file descriptors the process may open."),
    "process_open_fds": ("gauge", "How many file descriptors are open."),
    "process_resident_memory_bytes": ("gauge", "Resident memory."),
    "process_start_time_seconds": ("gauge", "When the process started, as Unix time."),
    "process_virtual_memory_bytes": ("gauge", "Virtual memory."),
}

# What constants of a table are bound to where a call is made; what is no constant is missing.
_Bindings = Mapping[str, str]


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class Metric:
    """A metric under the name that Prometheus shows."""

    name: str
    kind: str
    labels: tuple[str, ...]
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class _Form:
    """Where a call that makes a metric has what; the kind None: it is the second argument."""

    kind: str | None
    text: int
    labels: int
    prefix: str = ""


_SAMPLE: Final = {"Sample": _Form(kind=None, text=2, labels=3)}
_OPERATOR: Final = {
    "_counter": _Form(kind="counter", text=1, labels=2, prefix="barnabas_operator_"),
    "_gauge": _Form(kind="gauge", text=1, labels=2, prefix="barnabas_operator_"),
    "Histogram": _Form(kind="histogram", text=1, labels=2),
}
_CONSOLE: Final = {
    "CounterMetricFamily": _Form(kind="counter", text=1, labels=-1),
    "GaugeMetricFamily": _Form(kind="gauge", text=1, labels=-1),
}


class UnreadableMetricError(Exception):
    """A metric is made in a way that this reader does not know."""


def on_files(files: Any, *, config: Any) -> Any:
    """Add the page."""
    from mkdocs.structure.files import File

    files.append(File.generated(config, PAGE, content=page()))
    return files


def page() -> str:
    """The text of the page."""
    return "\n".join(_lines()) + "\n"


def _lines() -> Iterator[str]:
    yield "# Metrics"
    yield ""
    yield "Every metric that Barnabas exposes, in Prometheus' text format. Which to watch, and what"
    yield "to do about them: [monitoring](../monitoring.md). Counters end in `_total`; a histogram"
    yield "has the series `_bucket`, `_sum` and `_count`. A series is there once there is something"
    yield "to tell: those of log-ins after the first one, those of partitions while there are any."
    yield ""
    yield "The Python client exposes none; the Spark job `quality` writes its counts into a file:"
    yield "[jobs](jobs.md). Brokers show what clients of Java and librdkafka push to them as"
    yield "`barnabas_client_reported_…`: [metrics of clients](../monitoring.md#metrics-of-clients)."
    yield ""
    yield "## Broker"
    yield ""
    yield "On the admin port (9644), path `/metrics`, by the part of the broker that tells them."
    for title, metrics in broker_metrics().items():
        yield ""
        yield f"### {title.capitalize()}"
        yield ""
        yield from _table(metrics)
    yield ""
    yield "## Operator"
    yield ""
    yield "On port 8080, path `/metrics`."
    yield ""
    yield from _table(operator_metrics())
    yield ""
    yield "## Console"
    yield ""
    yield "On its port for probes (`--probe-port`), path `/metrics`."
    yield ""
    yield from _table(console_metrics())
    yield ""
    yield "## Of every process"
    yield ""
    yield from _table(
        Metric(name=name, kind=kind, labels=(), text=text) for name, (kind, text) in PROCESS.items()
    )


def broker_metrics() -> dict[str, list[Metric]]:
    """The metrics of a broker, by the folder of the modules that tell them."""
    found: dict[str, set[Metric]] = {}
    for path in sorted(_BROKER.rglob("*.py")):
        if metrics := read(path.read_text(encoding="utf-8"), _SAMPLE):
            found.setdefault(path.relative_to(_BROKER).parts[0], set()).update(metrics)
    return {title: sorted(metrics) for title, metrics in found.items()}


def operator_metrics() -> list[Metric]:
    """The metrics of the operator."""
    path = ROOT / "operator" / "barnabas_operator" / "metrics.py"
    return sorted(read(path.read_text(encoding="utf-8"), _OPERATOR))


def console_metrics() -> list[Metric]:
    """The metrics of the console."""
    path = ROOT / "console" / "barnabas_console" / "metrics.py"
    return sorted(read(path.read_text(encoding="utf-8"), _CONSOLE))


def read(source: str, forms: Mapping[str, _Form] = _SAMPLE) -> set[Metric]:
    """The metrics that a module makes by calls of these forms.

    Raises: UnreadableMetricError, with the line.
    """
    module = ast.parse(source)
    return {
        metric
        for function in ast.walk(module)
        if isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef)
        for call, around in _calls(function, forms, ())
        for metric in _made(_Place(module, function, around), call, forms[_called(call)])
    }


@dataclass(frozen=True, slots=True)
class _Place:
    """Where a call is: its module, its function and the loops around it, the outermost first."""

    module: ast.Module
    function: ast.FunctionDef | ast.AsyncFunctionDef
    loops: tuple[ast.For, ...]

    def bindings(self) -> list[_Bindings]:
        """The constants that names have, one for each row of the tables that are walked."""
        found: list[_Bindings] = [{}]
        for rows in (self._parameters(), *self._chosen(), *map(self._of_loop, self.loops)):
            found = [{**before, **row} for before in found for row in rows]
        return found

    def labels(self, node: ast.expr) -> tuple[str, ...] | None:
        """The names of labels; None where they are not known."""
        if isinstance(node, ast.Name) and (local := _assigned(self.function, node.id)):
            return _labels(self.module, local)
        return _labels(self.module, node)

    def rows(self, table: ast.expr) -> list[ast.expr]:
        """The rows of a table that stands there, or in a constant; none for what is no table."""
        match table:
            case ast.Tuple() | ast.List():
                return list(table.elts)
            case ast.Dict():
                return list(table.values)
            case ast.Name(id=name):
                found = _constant(self.module, name)
                return [] if found is None else self.rows(found[1])
            case ast.Call(func=ast.Name(id="zip"), args=[first, *others]):
                unknown = [ast.Constant(None) for _ in others]
                return [ast.Tuple(elts=[row, *unknown], ctx=ast.Load()) for row in self.rows(first)]
            case _:
                return []

    def _of_loop(self, loop: ast.For) -> list[_Bindings]:
        return [_bound(loop.target, row) for row in self.rows(loop.iter)] or [{}]

    def _chosen(self) -> Iterator[list[_Bindings]]:
        """Of `name, text = TABLE[which]`: any of its rows."""
        for node in ast.walk(self.function):
            match node:
                case ast.Assign(
                    targets=[ast.Tuple() as target], value=ast.Subscript(value=ast.Name() as table)
                ):
                    yield [_bound(target, row) for row in self.rows(table)] or [{}]

    def _parameters(self) -> list[_Bindings]:
        """What this module gives to the function's parameters."""
        names = [one.arg for one in self.function.args.args if one.arg != "self"]
        given = [
            node.args
            for node in ast.walk(self.module)
            if isinstance(node, ast.Call)
            and _called(node) == self.function.name
            and len(node.args) == len(names)
        ]
        rows: list[_Bindings] = [
            {name: text for name, text in zip(names, map(_text, values), strict=True) if text}
            for values in given
        ]
        return rows or [{}]


def _constant(module: ast.Module, name: str) -> tuple[ast.Module, ast.expr] | None:
    """What a module, or the one that it imports from, assigns to a name; with the module."""
    if (value := _assigned(module, name)) is not None:
        return module, value
    for node in module.body:
        if isinstance(node, ast.ImportFrom) and name in [alias.name for alias in node.names]:
            path = (ROOT / "broker").joinpath(*(node.module or "").split(".")).with_suffix(".py")
            if path.exists():
                return _constant(ast.parse(path.read_text(encoding="utf-8")), name)
    return None


def _assigned(scope: ast.AST, name: str) -> ast.expr | None:
    values = [
        node.value
        for node in ast.walk(scope)
        if isinstance(node, ast.Assign | ast.AnnAssign) and name in _targets(node)
    ]
    return values[-1] if values else None


def _calls(
    node: ast.AST, forms: Mapping[str, _Form], loops: tuple[ast.For, ...]
) -> Iterator[tuple[ast.Call, tuple[ast.For, ...]]]:
    """The calls within a function, with the loops around them; not those of functions in it."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            continue
        if isinstance(child, ast.Call) and _called(child) in forms and not _is_copy(child):
            yield child, loops
        yield from _calls(child, forms, (*loops, child) if isinstance(child, ast.For) else loops)


def _is_copy(call: ast.Call) -> bool:
    """Whether it copies a sample, to give it another value."""
    return any(isinstance(argument, ast.Starred) for argument in call.args)


def _called(call: ast.Call) -> str:
    match call.func:
        case ast.Name(id=name) | ast.Attribute(attr=name):
            return name
    return ""


def _made(place: _Place, call: ast.Call, form: _Form) -> Iterator[Metric]:
    for bindings in place.bindings():
        name, text = (_filled(call.args[index], bindings) for index in (0, form.text))
        kind = form.kind or _filled(call.args[1], bindings)
        labels = place.labels(_labels_of(call, form))
        if name is None or text is None or kind is None or labels is None:
            raise UnreadableMetricError(
                f"line {call.lineno}: {ast.unparse(call)} is made in a way that"
                " handbook/metric_pages.py cannot read"
            )
        name = form.prefix + name
        if kind == "counter" and not name.endswith("_total"):
            name += "_total"
        yield Metric(name=name, kind=kind, labels=labels, text=text)


def _labels_of(call: ast.Call, form: _Form) -> ast.expr:
    if form.labels >= 0:
        return call.args[form.labels]
    given = [one.value for one in call.keywords if one.arg == "labels"]
    return given[0] if given else ast.Tuple(elts=[], ctx=ast.Load())


def _labels(module: ast.Module, node: ast.expr | None) -> tuple[str, ...] | None:
    match node:
        case ast.Constant(value=str(label)):
            return (label,)
        case ast.Dict(keys=parts) | ast.Tuple(elts=parts) | ast.List(elts=parts):
            found = [_labels(module, part) for part in parts]
            return None if None in found else tuple(chain.from_iterable(filter(None, found)))
        case ast.Call(func=ast.Name(id="dict" | "zip"), args=[first, *_]):
            return _labels(module, first)
        case ast.Starred(value=ast.Name(id=name)) | ast.Name(id=name):
            constant = _constant(module, name)
            return None if constant is None else _labels(*constant)
    return None


def _bound(target: ast.expr, row: ast.expr) -> dict[str, str]:
    """The names of a loop's target with the texts of a row."""
    match target, row:
        case ast.Name(id=name), _:
            text = _text(row)
            return {} if text is None else {name: text}
        case ast.Tuple(elts=names), ast.Tuple(elts=values):
            pairs = zip(names, values, strict=True)
            return {name: text for one, value in pairs for name, text in _bound(one, value).items()}
    return {}


def _filled(node: ast.expr, bindings: _Bindings) -> str | None:
    """A text, its names filled in; None where one of them is not known."""
    match node:
        case ast.Name(id=name):
            return bindings.get(name)
        case ast.FormattedValue(value=value):
            return _filled(value, bindings)
        case ast.JoinedStr(values=values):
            parts = [_filled(value, bindings) for value in values]
            return None if None in parts else "".join(filter(None, parts))
    return _text(node)


def _text(node: ast.expr) -> str | None:
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else None


def _targets(node: ast.Assign | ast.AnnAssign) -> list[str]:
    targets = node.targets if isinstance(node, ast.Assign) else [node.target]
    return [target.id for target in targets if isinstance(target, ast.Name)]


def _table(metrics: Any) -> Iterator[str]:
    yield "| metric | type | labels | meaning |"
    yield "|---|---|---|---|"
    for one in metrics:
        labels = ", ".join(f"`{label}`" for label in one.labels)
        yield f"| `{one.name}` | {one.kind} | {labels} | {one.text.replace('|', chr(92) + '|')} |"
