"""A hook of MkDocs: the pages of the reference that are made when the site is, and kept nowhere.

Commands come from the manual pages, which come from `--help`; resources from their definitions, as
`kubectl explain` has them; errors from the table of the wire and the Python client's classes. In a
clone the same is read with `man`, `--help` and `kubectl explain`.
"""

import importlib
import re
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).resolve().parent.parent
MANUAL = ROOT / "cli" / "man" / "man1"
DEFINITIONS = ("broker", "topic", "user", "group")
_SHOUTED = re.compile(r"^\.SH (.*)$")


def on_files(files: Any, *, config: Any) -> Any:
    """Add the pages."""
    from mkdocs.structure.files import File

    for name, text in pages().items():
        files.append(File.generated(config, name, content=text))
    return files


def pages() -> dict[str, str]:
    """The names of the pages on the site, and their texts."""
    return {
        "reference/commands.md": "\n".join(_commands()),
        "reference/resources.md": "\n".join(_resources()),
        "reference/errors.md": "\n".join(_errors()),
    }


def _commands() -> Iterator[str]:
    yield "# Commands"
    yield ""
    yield "What `barnabas … --help` and `man barnabas-…` say, on one page."
    for path in sorted(MANUAL.glob("*.1"), key=lambda path: path.stem.split("-")):
        yield ""
        yield from _manual_page(path.read_text(encoding="utf-8").splitlines())


def _manual_page(lines: list[str]) -> Iterator[str]:
    """One manual page: its summary, its synopsis, its text and a table of its options."""
    sections: dict[str, list[str]] = {}
    for line in lines:
        found = _SHOUTED.match(line)
        if found is not None:
            current = sections.setdefault(found[1], [])
        elif sections:
            current.append(line)
    synopsis = sections["SYNOPSIS"][0]
    called = re.match(r"\\fB(.*?)\\fP", synopsis)
    assert called is not None
    yield f"## {_plain(called[1])}"
    yield ""
    yield _escaped(_plain(sections["NAME"][0]).partition(" - ")[2] + ".")
    yield ""
    yield f"```text\n{_plain(synopsis)}\n```"
    for line in sections.get("DESCRIPTION", []):
        yield "" if line.startswith(".") else _escaped(_plain(line))
    for title, first in (("OPTIONS", "option"), ("COMMANDS", "command")):
        if title in sections:
            yield ""
            yield f"| {first} | |"
            yield "|---|---|"
            for name, text in _tagged(sections[title]):
                yield f"| `{_cell(name)}` | {_cell(_escaped(text))} |"


def _tagged(lines: list[str]) -> Iterator[tuple[str, str]]:
    """The tagged paragraphs of a section: each name with its text."""
    name, texts = "", list[str]()
    for line, before in zip(lines, ["", *lines], strict=False):
        if line == ".TP":
            if name:
                yield name, " ".join(texts)
            name, texts = "", []
        elif before == ".TP":
            name = _plain(line)
        elif not line.startswith("."):
            texts.append(_plain(line))
    if name:
        yield name, " ".join(texts)


def _plain(text: str) -> str:
    """The text without the marks of roff."""
    text = re.sub(r"\\f[BPIR]", "", text)
    return text.replace("\\-", "-").replace("\\&", "").replace("\\e", "\\").replace("\\(aq", "'")


def _resources() -> Iterator[str]:
    yield "# Resources"
    yield ""
    yield "Every field of the definitions, as `kubectl explain` has them. What is wrong in a"
    yield "resource is told in its status: [errors in resources](../bad-specs.md)."
    for name in DEFINITIONS:
        definition = yaml.safe_load((ROOT / "crds" / f"{name}.yaml").read_text(encoding="utf-8"))
        kind = definition["spec"]["names"]["kind"]
        for version in definition["spec"]["versions"]:
            schema = version["schema"]["openAPIV3Schema"]
            for part in ("spec", "status"):
                yield ""
                yield f"## {kind}: {part}"
                yield ""
                yield "| field | type | |"
                yield "|---|---|---|"
                yield from _fields(schema["properties"][part], "")


def _fields(schema: Mapping[str, Any], above: str) -> Iterator[str]:
    """A row for each field, those within it after it."""
    required = set(schema.get("required", ()))
    for name, field in schema.get("properties", {}).items():
        path = f"{above}{name}"
        notes = [field.get("description", "")]
        if name in required:
            notes.append("Required.")
        if "default" in field:
            notes.append(f"Default: `{field['default']}`.")
        if "enum" in field:
            notes.append("One of " + ", ".join(f"`{one}`" for one in field["enum"]) + ".")
        kind = field.get("type", "any")
        yield f"| `{path}` | {kind} | {_cell(' '.join(filter(None, notes)))} |"
        yield from _fields(field, f"{path}.")
        if isinstance(field.get("items"), dict):
            yield from _fields(field["items"], f"{path}[].")
        if isinstance(field.get("additionalProperties"), dict):
            yield from _fields(field["additionalProperties"], f"{path}.*.")


def _errors() -> Iterator[str]:
    for home in ("protocol", "client"):  # the tools of the site have no packages of ours
        if str(ROOT / home) not in sys.path:
            sys.path.append(str(ROOT / home))
    wire = importlib.import_module("barnabas_protocol.errors")
    client = importlib.import_module("barnabas_client.errors")
    yield "# Errors"
    yield ""
    yield "The error codes of Kafka's protocol: whether a client may send the same request again,"
    yield "and what `barnabas_client` raises. What to do about them:"
    yield "[troubleshooting](../troubleshooting.md)."
    yield ""
    yield "| code | name | again | the Python client raises |"
    yield "|---:|---|---|---|"
    for code in sorted(wire.ErrorCode):
        if code != wire.ErrorCode.NONE:
            raised = type(client.error_for(code, "")).__name__
            again = "yes" if wire.is_retriable(code) else "no"
            yield f"| {code.value} | `{code.name}` | {again} | `{raised}` |"


def _escaped(text: str) -> str:
    """The text where Markdown would take names between angle brackets or stars for its own."""
    return re.sub(r"([<>*_\[\]])", r"\\\1", text)


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")
