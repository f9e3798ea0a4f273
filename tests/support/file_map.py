"""Writes the tables of docs/file-map.md anew from the first sentences of the modules.

python -m tests.support.file_map
"""

import ast
import subprocess
from collections.abc import Iterable
from itertools import groupby
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
HOMES = ("broker", "cli", "client", "console", "operator", "pipelines", "protocol", "testing")
MESSAGES = """### protocol/barnabas_protocol/messages

"""


def first_sentence(path: Path) -> str:
    """What the module says it is, on one line."""
    text = ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or ""
    line = " ".join(text.partition("\n\n")[0].split())
    end = line.find(". ")
    return (line if end < 0 else line[:end]).rstrip(".:").replace("|", "\\|")


def modules() -> list[Path]:
    """All modules of the packages, without messages and empty packages, folder by folder."""
    patterns = [f"{home}/**.py" for home in HOMES]
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard", *patterns]
    listed = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    paths = [ROOT / line for line in listed.stdout.splitlines()]
    kept = [
        path
        for path in paths
        if path.exists() and path.name != "__init__.py" and path.parent.name != "messages"
    ]
    return sorted(kept, key=lambda path: (str(path.parent), path.name))


def sections(paths: Iterable[Path]) -> str:
    """One table per folder."""
    written = []
    for folder, inside in groupby(paths, key=lambda path: path.parent):
        rows = "".join(f"| `{path.name}` | {first_sentence(path)} |\n" for path in inside)
        title = folder.relative_to(ROOT)
        written.append(f"### {title}\n\n| module | what it is |\n|---|---|\n{rows}")
    return "\n".join(written)


def main() -> None:
    page = ROOT / "docs" / "file-map.md"
    text = page.read_text(encoding="utf-8")
    head, _, rest = text.partition("<!-- modules -->\n")
    # What is said about the messages in one paragraph instead of 91 rows stays.
    messages = rest[rest.index(MESSAGES) :]
    page.write_text(
        f"{head}<!-- modules -->\n\n{sections(modules())}\n{messages}", encoding="utf-8"
    )


if __name__ == "__main__":
    main()
