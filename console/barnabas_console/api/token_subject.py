"""Whom a token names, for showing alone: nothing is verified here, and nothing decided by it."""

from __future__ import annotations

from typing import Final

from barnabas_protocol.web_tokens.web_token import shown_subject

NAME_LENGTH_MAX: Final = 256


def subject_of(token: str) -> str | None:
    """Whom a JWT names, by no more than fits a page; None of another kind of token."""
    subject = shown_subject(token)
    return None if subject is None else subject[:NAME_LENGTH_MAX]
