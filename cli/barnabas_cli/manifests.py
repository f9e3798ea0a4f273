"""Manifests from files: YAML documents with the lines they came from, checked, as specs.

Not here: what a manifest may contain (the CRD), what is done with it (`apply.py`).

Invariants: every problem names file, document and line; a key that is written twice is one of them,
because YAML readers silently keep one of the two.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from barnabas_cli.failures import CommandError
from barnabas_operator.crd import KINDS, problems
from barnabas_operator.spec import API_VERSION, SpecError, TopicSpec

STANDARD_INPUT = "-"
_SUFFIXES = (".yaml", ".yml", ".json")
_GROUP = API_VERSION.partition("/")[0]

Path_ = tuple[str | int, ...]
ReadInput = Callable[[], str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Manifest:
    """One resource: where it stands, and its node, which knows the lines of its fields."""

    source: str
    document: int
    body: dict[str, Any]
    node: yaml.Node

    def place(self, path: Path_ = ()) -> str:
        """File, line and document of a field, or of what is nearest to it."""
        line = _line(self.node, path) + 1
        return f"{self.source}:{line} (document {self.document})"


@dataclass(frozen=True, slots=True, kw_only=True)
class Loaded:
    """What the files hold: specs of topics, and what is left aside."""

    specs: tuple[TopicSpec, ...]
    skipped: tuple[str, ...]


def load_specs(paths: Sequence[str], read_input: ReadInput) -> Loaded:
    """The topics that files, folders or standard input (`-`) declare.

    `read_input` gives the text of standard input. Raises: CommandError with every problem there is,
    one on each line.
    """
    specs: list[TopicSpec] = []
    skipped: list[str] = []
    wrong: list[str] = []
    for manifest in _manifests(paths, read_input, wrong):
        version, kind = str(manifest.body.get("apiVersion")), manifest.body.get("kind")
        if kind not in KINDS and version.partition("/")[0] != _GROUP:
            skipped.append(f"{manifest.place()}: {version} {kind} is not for this command")
            continue
        found = problems(manifest.body)
        if found:
            wrong += [f"{manifest.place(problem.path)}: {problem}" for problem in found]
        elif kind == "Topic":
            try:
                specs.append(TopicSpec.from_manifest(manifest.body, len(specs)))
            except SpecError as error:
                wrong.append(f"{manifest.place(error.path)}: {error}")
        else:
            skipped.append(f"{manifest.place()}: {kind} needs the operator")
    if wrong:
        raise ManifestError(wrong)
    return Loaded(specs=tuple(specs), skipped=tuple(skipped))


class ManifestError(CommandError):
    """Manifests that cannot be used; one problem on each line."""

    def __init__(self, wrong: Sequence[str]) -> None:
        more = f" (and {len(wrong) - 1} more)" if len(wrong) > 1 else ""
        super().__init__(wrong[0] + more)
        self.wrong = tuple(wrong)


def _manifests(paths: Sequence[str], read_input: ReadInput, wrong: list[str]) -> Iterator[Manifest]:
    for path in paths:
        for source, text in _texts(path, read_input):
            yield from _documents(source, text, wrong)


def _texts(path: str, read_input: ReadInput) -> Iterator[tuple[str, str]]:
    if path == STANDARD_INPUT:
        yield "standard input", read_input()
        return
    if not Path(path).is_dir():
        yield path, Path(path).read_text("utf-8")
        return
    files = sorted(file for file in Path(path).rglob("*") if file.suffix in _SUFFIXES)
    if not files:
        raise CommandError(f"{path} has no manifests (*.yaml, *.yml, *.json)")
    for file in files:
        yield str(file), file.read_text("utf-8")


def _documents(source: str, text: str, wrong: list[str]) -> Iterator[Manifest]:
    try:
        for number, node in enumerate(yaml.compose_all(text, yaml.SafeLoader), start=1):
            if node is None or node.tag.endswith(":null"):
                continue
            doubled = _doubled_key(node)
            if doubled is not None:
                line = doubled.start_mark.line + 1
                wrong.append(
                    f"{source}:{line} (document {number}): '{doubled.value}' is written twice"
                )
                continue
            yield from _resources(source, number, node, wrong)
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        line = f":{mark.line + 1}" if mark is not None else ""
        reason = getattr(error, "problem", None) or str(error)
        wrong.append(f"{source}{line}: this is no YAML: {reason}")


def _resources(source: str, number: int, node: yaml.Node, wrong: list[str]) -> Iterator[Manifest]:
    """The resource of a document, or those of a `kind: List`."""
    body = _construct(node)
    if not isinstance(body, dict):
        line = node.start_mark.line + 1
        wrong.append(f"{source}:{line} (document {number}): a manifest is a mapping of fields")
        return
    if body.get("kind") != "List":
        yield Manifest(source=source, document=number, body=body, node=node)
        return
    items = _child(node, "items")
    for item in items.value if isinstance(items, yaml.SequenceNode) else ():
        yield from _resources(source, number, item, wrong)


def _construct(node: yaml.Node) -> Any:
    loader = yaml.SafeLoader("")
    try:
        return loader.construct_document(node)
    finally:
        loader.dispose()


def _doubled_key(node: yaml.Node) -> yaml.ScalarNode | None:
    """The first key that stands twice in one mapping."""
    if isinstance(node, yaml.MappingNode):
        seen: set[str] = set()
        for key, value in node.value:
            if isinstance(key, yaml.ScalarNode):
                if key.value in seen:
                    return key
                seen.add(key.value)
            found = _doubled_key(value)
            if found is not None:
                return found
    elif isinstance(node, yaml.SequenceNode):
        for item in node.value:
            found = _doubled_key(item)
            if found is not None:
                return found
    return None


def _line(node: yaml.Node, path: Path_) -> int:
    """The line, from 0, of the field at the end of the path, so far as it exists."""
    line = node.start_mark.line
    for step in path:
        if isinstance(node, yaml.MappingNode):
            for key, value in node.value:
                if key.value == step:
                    line, node = key.start_mark.line, value
                    break
            else:
                return int(line)
        elif isinstance(node, yaml.SequenceNode) and isinstance(step, int):
            node = node.value[step]
            line = node.start_mark.line
        else:
            return int(line)
    return int(line)


def _child(node: yaml.Node, name: str) -> yaml.Node | None:
    if isinstance(node, yaml.MappingNode):
        for key, value in node.value:
            if key.value == name:
                return value  # type: ignore[no-any-return]
    return None
