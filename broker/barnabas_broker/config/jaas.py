"""The texts of `sasl.jaas.config`: a login module with its options, as Java's JAAS files have it.

    entry = class, flag, { key "=" value }, ";"

Values are words, or texts in double quotes with backslash escapes. Nothing of Java is run: classes
stand for mechanisms, and who reads a text says which of its options mean something.

Source: `javax.security.auth.login.Configuration`; KIP-85.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from barnabas_broker.config.definitions import ConfigError

_FLAGS: Final = ("required", "requisite", "sufficient", "optional")
_TOKEN: Final = re.compile(r"""\s*(?:"((?:[^"\\]|\\.)*)"|([^\s"=;]+)|([=;]))""", re.DOTALL)
_ESCAPE: Final = re.compile(r"\\(.)", re.DOTALL)


@dataclass(frozen=True, slots=True)
class JaasEntry:
    """One login module; the options may be secrets."""

    module: str  # without its package
    options: Mapping[str, str] = field(repr=False)

    @staticmethod
    def parse(key: str, text: str) -> JaasEntry:
        """The only entry of a text. Raises: ConfigError that names the key and shows no value."""
        tokens = _tokens(key, text)
        if len(tokens) < 3 or tokens[1].lower() not in _FLAGS or tokens[-1] != ";":
            raise ConfigError(f'{key}: not of the form `module required key="value" ... ;`')
        options: dict[str, str] = {}
        rest = tokens[2:-1]
        for start in range(0, len(rest), 3):
            option = rest[start : start + 3]
            if len(option) < 3 or option[1] != "=":
                raise ConfigError(f"{key}: an option is not of the form key=value")
            options[option[0]] = option[2]
        return JaasEntry(tokens[0].rpartition(".")[2], options)


def _tokens(key: str, text: str) -> list[str]:
    tokens: list[str] = []
    position, text = 0, text.rstrip()
    while position < len(text):
        match = _TOKEN.match(text, position)
        if match is None:
            raise ConfigError(f"{key}: a quotation does not end")
        quoted, word, sign = match.groups()
        tokens.append(_ESCAPE.sub(r"\1", quoted) if quoted is not None else word or sign)
        position = match.end()
    return tokens
