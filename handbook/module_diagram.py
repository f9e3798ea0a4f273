"""Draws the packages and who imports whom, from the import graph: docs/images/modules.svg.

`python -m handbook.module_diagram` writes it. A node is a package, and inside the broker a folder.
An arrow that follows from others is left out: where `a` imports `b` and `b` imports `c`, the arrow
from `a` to `c` is not drawn. `tests/test_tidy.py` keeps the drawing true.
"""

import ast
import subprocess
from collections.abc import Mapping
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
TARGET = ROOT / "docs" / "images" / "modules.svg"
BROKER = "barnabas_broker"
PACKAGES = ("protocol", "client", "broker", "operator", "pipelines", "console", "cli", "testing")
WIDTH, HEIGHT, GAP_X, GAP_Y, MARGIN = 132, 34, 28, 46, 16

Graph = Mapping[str, set[str]]


def node_of(module: str) -> str | None:
    """The node of the drawing that a module belongs to; None for modules of others."""
    package, _, rest = module.partition(".")
    if package == BROKER:
        return f"broker/{rest.partition('.')[0].strip('_') or 'main'}"
    name = package.removeprefix("barnabas_")
    return name if name != package and name in PACKAGES else None


def import_graph() -> Graph:
    """Which nodes each node imports, itself left out."""
    graph = dict[str, set[str]]()
    for home in PACKAGES:
        listed = subprocess.run(
            ["git", "ls-files", "--cached", "--others", "--exclude-standard", f"{home}/**.py"],
            cwd=ROOT,
            capture_output=True,
            text=True,
            check=True,
        )
        for line in listed.stdout.splitlines():
            path = ROOT / line
            parts = Path(line).with_suffix("").parts[1:]
            node = node_of(".".join(part for part in parts if part != "__init__"))
            if node is None or parts == (BROKER, "__init__") or not path.exists():
                continue
            imported = {node_of(name) for name in _imports(path)}
            graph.setdefault(node, set()).update(other for other in imported if other)
    return {node: others & graph.keys() - {node} for node, others in sorted(graph.items())}


def _imports(path: Path) -> set[str]:
    names = set[str]()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            names.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module == BROKER:
            names.update(f"{BROKER}.{alias.name}" for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            names.add(node.module)
    return names


def reachable(graph: Graph, start: str) -> set[str]:
    """All that a node imports, also by way of others."""
    found, waiting = set[str](), [start]
    while waiting:
        for other in graph[waiting.pop()] - found:
            found.add(other)
            waiting.append(other)
    return found


def direct(graph: Graph) -> Graph:
    """The graph without the arrows that follow from others."""
    return {
        node: {
            other
            for other in others
            if not any(other in reachable(graph, third) for third in others - {other})
        }
        for node, others in graph.items()
    }


def levels(graph: Graph) -> dict[str, int]:
    """The row of each node: below all that import it, and as high as that allows."""
    rows = dict[str, int]()
    while len(rows) < len(graph):
        for node in graph:
            importers = {other for other in graph if node in graph[other]}
            if importers <= rows.keys():
                rows[node] = 1 + max((rows[other] for other in importers), default=-1)
    return rows


def placed(graph: Graph) -> dict[str, tuple[float, int]]:
    """Where the box of each node is: the broker on the left, the other packages on the right."""
    rows = levels(graph)
    lanes: list[list[list[str]]] = [[], []]
    for level in range(max(rows.values()) + 1):
        inside = [node for node in graph if rows[node] == level]
        lanes[0].append([node for node in inside if "/" in node])
        lanes[1].append([node for node in inside if "/" not in node])
    places = dict[str, tuple[float, int]]()
    left = float(MARGIN)
    for lane in lanes:
        width = max(len(row) for row in lane) * (WIDTH + GAP_X)
        for level, row in enumerate(lane):
            start = left + (width - len(row) * (WIDTH + GAP_X)) / 2
            # Under the boxes that import it, so that few arrows cross.
            order = sorted(row, key=lambda node: (_importers_x(graph, places, node), node))
            for column, node in enumerate(order):
                x = start + column * (WIDTH + GAP_X)
                places[node] = (x, MARGIN + level * (HEIGHT + GAP_Y))
        left += width
    return places


def _importers_x(graph: Graph, places: Mapping[str, tuple[float, int]], node: str) -> float:
    found = [places[other][0] for other in graph if node in graph[other] and other in places]
    return sum(found) / len(found) if found else 0.0


def drawing() -> str:
    """The drawing as SVG."""
    graph = direct(import_graph())
    places = placed(graph)
    width = max(x for x, _ in places.values()) + WIDTH + MARGIN
    height = max(y for _, y in places.values()) + HEIGHT + MARGIN
    arrows = [
        _arrow(places[node], places[other])
        for node, others in graph.items()
        for other in sorted(others)
    ]
    boxes = [_box(node, *place) for node, place in sorted(places.items())]
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:g} {height}" '
            f'width="{width:g}" height="{height}" font-family="sans-serif" font-size="13">',
            '<rect width="100%" height="100%" fill="#ffffff"/>',
            '<defs><marker id="tip" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" '
            'markerHeight="7" orient="auto"><path d="M0,0 L8,4 L0,8 z" fill="#607080"/>'
            "</marker></defs>",
            *arrows,
            *boxes,
            "</svg>\n",
        ]
    )


def _arrow(start: tuple[float, int], end: tuple[float, int]) -> str:
    x, y = start[0] + WIDTH / 2, start[1] + HEIGHT
    other_x, other_y = end[0] + WIDTH / 2, end[1]
    middle = (y + other_y) / 2
    return (
        f'<path d="M{x:g},{y:g} C{x:g},{middle:g} {other_x:g},{middle:g} {other_x:g},{other_y:g}" '
        'fill="none" stroke="#607080" marker-end="url(#tip)"/>'
    )


def _box(node: str, x: float, y: int) -> str:
    colour = "#dce6f7" if "/" in node else "#e3f1de"
    return (
        f'<rect x="{x:g}" y="{y:g}" width="{WIDTH}" height="{HEIGHT}" rx="4" fill="{colour}" '
        f'stroke="#607080"/><text x="{x + WIDTH / 2:g}" y="{y + 21:g}" text-anchor="middle" '
        f'fill="#203040">{node}</text>'
    )


if __name__ == "__main__":
    TARGET.write_text(drawing(), encoding="utf-8")
