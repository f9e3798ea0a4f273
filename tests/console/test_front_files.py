"""The page's files as they are shipped: nothing is built, fetched from elsewhere, or too large."""

from __future__ import annotations

import gzip
import posixpath
import re
from pathlib import Path

STATIC = Path(__file__).resolve().parents[2] / "console" / "barnabas_console" / "static"
LIBRARIES = STATIC / "vendor"
#: CON-139: what a first visit may load, charts left out, which are loaded when seen.
FIRST_VISIT_BYTES_MAX = 140 * 1024
#: Pages that somebody opens first; the frame preloads the parts that they are made of.
FIRST_PAGES = ("pages/overview.js", "pages/brokers.js", "pages/topics.js")
_IMPORTED = re.compile(r'^(?:import|export)[^;]*? from "(\.[^"]+)";', re.MULTILINE)


def own_modules() -> list[Path]:
    """The modules that are written here."""
    return sorted(path for path in STATIC.rglob("*.js") if LIBRARIES not in path.parents)


def imported_from(name: str) -> set[str]:
    """A module and what it needs before it runs."""
    found = {name}
    waiting = [name]
    while waiting:
        module = waiting.pop()
        if module.startswith("vendor/"):
            continue
        text = (STATIC / module).read_text(encoding="utf-8")
        for target in _IMPORTED.findall(text):
            path = posixpath.normpath(posixpath.join(posixpath.dirname(module), target))
            if path not in found:
                found.add(path)
                waiting.append(path)
    return found


def test_what_the_first_paint_needs_is_preloaded() -> None:
    """CON-174: modules that are found one by another cost a round trip for each level."""
    index = (STATIC / "index.html").read_text(encoding="utf-8")
    preloaded = set(re.findall(r'rel="modulepreload" href="\{\{assets\}\}/([^"]+)"', index))
    first = set().union(*map(imported_from, ["main.js", *FIRST_PAGES]))
    assert preloaded == {name for name in first if not name.startswith("pages/")} - {"main.js"} | {
        "pages/index.js"
    }


def test_the_frame_is_painted_before_any_module_runs() -> None:
    """CON-174: as the frame will be, so that nothing moves when it takes over."""
    index = (STATIC / "index.html").read_text(encoding="utf-8")
    frame = index[index.index('<div id="app">') : index.index("<noscript>")]
    for part in ('class="skip"', 'class="top"', 'class="brand"', 'class="side"', 'id="main"'):
        assert part in frame


def test_the_early_script_preloads_the_modules_of_first_pages() -> None:
    """CON-174: a page and what it alone needs come beside the frame."""
    early = (STATIC / "early.js").read_text(encoding="utf-8")
    for page in FIRST_PAGES:
        name = Path(page).stem
        (named,) = re.findall(rf"^    {name}: \[(.*)\],$", early, re.MULTILINE)
        for module in re.findall(r'"(\w+)"', named):
            assert (STATIC / "pages" / f"{module}.js").is_file()
        needed = {Path(module).stem for module in imported_from(page) if "pages/" in module}
        assert needed - {"index"} <= set(re.findall(r'"(\w+)"', named))


def test_no_file_has_anything_inline_that_the_policy_would_stop() -> None:
    """CON-142: scripts and styles come from our own address, as files."""
    index = (STATIC / "index.html").read_text(encoding="utf-8")
    assert not re.findall(r"<style|style=|\son\w+=|<script(?![^>]*\ssrc=)", index)


def test_no_module_names_an_address() -> None:
    """CON-142: no CDN, no telemetry, nothing from anywhere else."""
    for path in own_modules():
        assert "://" not in path.read_text(encoding="utf-8"), path.name


def test_no_module_makes_elements_or_code_of_text() -> None:
    """CON-142: names and records are text wherever they are shown."""
    banned = re.compile(
        r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|eval\(|new Function"
    )
    for path in own_modules():
        assert not banned.findall(path.read_text(encoding="utf-8")), path.name


def test_modules_import_files_that_exist() -> None:
    """A typing mistake in a path is found without a browser."""
    pattern = re.compile(r'(?:from|import\()\s*"(\.[^"]+)"')
    for path in own_modules():
        for target in pattern.findall(path.read_text(encoding="utf-8")):
            assert (path.parent / target).resolve().is_file(), f"{path.name}: {target}"


def test_space_comes_in_steps_of_four_pixels() -> None:
    """CON-150: but for the line of 20 px in a row of 32 px, which has a name."""
    spaced = re.compile(r"(?:^|[{;\s])((?:padding|margin|gap|row-gap|column-gap)(?:-\w+)?: [^;]+)")
    for path in sorted(STATIC.glob("styles/*.css")):
        for rule in spaced.findall(path.read_text(encoding="utf-8")):
            odd = [px for px in re.findall(r"-?\d+(?=px)", rule) if int(px) % 4]
            # What is for readers of the screen alone is out of sight.
            assert not odd or rule == "margin: -1px", f"{path.name}: {rule}"


def test_a_first_visit_is_small() -> None:
    """CON-139: 140 KiB by gzip, all pages counted, without the charts."""
    files = [
        path
        for path in STATIC.rglob("*")
        if path.suffix in (".js", ".css", ".html", ".svg") and path.stem not in ("charts", "uplot")
    ]
    size = sum(len(gzip.compress(path.read_bytes(), mtime=0)) for path in files)
    assert 10_000 < size < FIRST_VISIT_BYTES_MAX


def test_libraries_come_with_map_and_licences() -> None:
    """CON-138: who reads the bundle finds its source and under which terms it is."""
    for name in ("vendor.js", "charts.js"):
        assert (LIBRARIES / f"{name}.map").is_file()
    licences = (LIBRARIES / "LICENSES.txt").read_text(encoding="utf-8")
    for library in ("preact", "@preact/signals", "uplot"):
        assert library in licences
