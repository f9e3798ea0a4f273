"""A hook of MkDocs: makes the documentation site from `docs/` and a few pages that live elsewhere.

It does four things that mkdocs.yml cannot say: it adds the pages of `OUTSIDE`, it expands a folder
in the navigation to the pages in it, it gives code blocks of files their titles, and it follows
links that leave `docs/`. A link to a file that
the site does not have becomes plain text; a link to a file that does not exist stays as it is, so
that a strict build refuses it.
"""

import posixpath
import re
from pathlib import Path
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page
from pymdownx.slugs import slugify

ROOT = Path(__file__).resolve().parent.parent
# Pages that stand beside what they describe, and their names on the site.
OUTSIDE = {
    "README.md": "index.md",
    "CHANGELOG.md": "changelog.md",
    "CONTRIBUTING.md": "contributing.md",
    "benchmarks/README.md": "benchmarks.md",
    "charts/barnabas/README.md": "chart.md",
    "examples/README.md": "examples.md",
    "tests/e2e/lab/README.md": "lab.md",
}
_SOURCES = {page: source for source, page in OUTSIDE.items()}
_FENCE = re.compile(r"^```(\w+) ([^\n]+)$", re.MULTILINE)
_LINK = re.compile(r"\[([^\]\[]*)\]\(([^()\s]+)\)")


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Expand folders in the navigation; name anchors as the code host does."""
    config.nav = [_expanded(item) for item in config.nav or []]
    config.mdx_configs.setdefault("toc", {})["slugify"] = slugify(case="lower")
    return config


def on_files(files: Files, *, config: MkDocsConfig) -> Files:
    """Add the pages that live outside of `docs/`."""
    for source, page in OUTSIDE.items():
        text = (ROOT / source).read_text(encoding="utf-8")
        files.append(File.generated(config, page, content=text))
    return files


def on_page_markdown(markdown: str, *, page: Page, **_: Any) -> str:
    """Turn links between files of the repository into links between pages of the site."""
    name = page.file.src_uri
    source = _SOURCES.get(name, f"docs/{name}")

    def replaced(match: re.Match[str]) -> str:
        text, target = match.groups()
        path, mark, anchor = target.partition("#")
        if not path or "://" in path or path.startswith("mailto:"):
            return match[0]
        found = posixpath.normpath(posixpath.join(posixpath.dirname(source), path))
        site_name = OUTSIDE.get(found)
        if site_name is None and found.startswith("docs/"):
            site_name = found.removeprefix("docs/")
        if site_name is None:
            return text if (ROOT / found).exists() else match[0]
        relative = posixpath.relpath(site_name, posixpath.dirname(name) or ".")
        return f"[{text}]({relative}{mark}{anchor})"

    return _LINK.sub(replaced, _FENCE.sub(_fence, markdown))


def _fence(match: re.Match[str]) -> str:
    """The opening of a code block: a file's name becomes its title, notes for tests go."""
    language, rest = match.groups()
    return f"```{language}" if "=" in rest else f'```{language} title="{rest}"'


def _expanded(item: Any) -> Any:
    """The item with each `folder/` replaced by the names of the pages in that folder, sorted."""
    if not isinstance(item, dict):
        return item
    return {title: pages for title, value in item.items() if (pages := _pages(value))}


def _pages(value: Any) -> Any:
    if isinstance(value, list):
        # A folder without pages yet leaves nothing behind.
        return [expanded for item in value if (expanded := _expanded(item))]
    if not value.endswith("/"):
        return value
    found = sorted(path.relative_to(ROOT / "docs") for path in (ROOT / "docs" / value).glob("*.md"))
    # A folder's README is its first page.
    return [str(path) for path in sorted(found, key=lambda path: path.name != "README.md")]
