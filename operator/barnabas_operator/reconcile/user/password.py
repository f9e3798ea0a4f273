"""The password of a User, from the first one on: made, changed, overlapped. Pure.

With the same salt and iterations a broker takes the former password as well (SEC-27), so clients
need not change at the same moment; with another salt the former one ends at once.

A new password is kept in the Secret, beside the one in use, before any broker hears of it, and is
put into use there after all brokers know it. So whatever the operator dies of in between, the next
pass goes on with the same two passwords, and no client is left with one that nobody knows.

What is remembered of it stands at the very Secret, in the write that puts the password into use, so
that the two never disagree; the status only shows it. Where the Secret is gone, the status still
says which salts were used up. The salt need not be secret: brokers tell it to whoever logs in.
"""

from __future__ import annotations

import hashlib
import json
import logging
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any

from barnabas_operator.conditions import timestamp
from barnabas_operator.user_spec import Rotation

logger = logging.getLogger(__name__)

# Kafka's least, and what makes guessing a made password no easier: it has 192 bits.
ITERATIONS = 4096
_SALT_BYTES = 24


@dataclass(frozen=True, slots=True, kw_only=True)
class Credential:
    """What is remembered of a password: no secret.

    `source` is the version of the Secret that it was taken from, empty for a made one.
    """

    changed: datetime | None = None
    source: str = ""
    salt: int = 0
    overlap_ends: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PasswordPlan:
    """What to do, in this order: keep `pending`, tell the brokers, put it into use.

    `password` is what clients are to have in the end; `is_told` whether brokers have to hear of it.
    """

    password: str
    credential: Credential
    pending: str = ""
    is_told: bool = False

    def __repr__(self) -> str:
        """Return everything but the passwords."""
        return f"PasswordPlan(is_told={self.is_told}, credential={self.credential})"


def plan_made_password(
    *,
    present: str,
    pending: str,
    credential: Credential,
    is_known: bool,
    rotation: Rotation | None,
    now: datetime,
    new_password: str,
) -> PasswordPlan:
    """For a password that the operator makes.

    `present` is the one in use by the Secret, empty where there is none; `pending` the one that
    waits beside it; `is_known` says whether brokers have a credential of the user.
    """
    if not present:
        made = pending or new_password
        first = Credential(changed=now, salt=credential.salt + 1)
        return PasswordPlan(password=made, credential=first, pending=made, is_told=True)
    if not is_known or credential.changed is None:
        # Somebody has deleted it, or the operator did not come to note it.
        known = replace(credential, changed=credential.changed or now)
        return PasswordPlan(password=present, credential=known, is_told=True)
    if credential.overlap_ends is not None and now >= credential.overlap_ends:
        # The same password with another salt: the former one is forgotten. Before
        # the next change, which has to build on the salt that brokers have for certain.
        ended = replace(credential, salt=credential.salt + 1, overlap_ends=None)
        return PasswordPlan(password=present, credential=ended, is_told=True)
    if pending or (rotation is not None and now >= credential.changed + rotation.every):
        overlap = timedelta(0) if rotation is None else rotation.overlap
        changed = Credential(
            changed=now,
            salt=credential.salt if overlap else credential.salt + 1,
            overlap_ends=now + overlap if overlap else None,
        )
        made = pending or new_password
        return PasswordPlan(password=made, credential=changed, pending=made, is_told=True)
    return PasswordPlan(password=present, credential=credential)


def plan_given_password(
    *, given: str, source: str, credential: Credential, is_known: bool, now: datetime
) -> PasswordPlan:
    """For a password of somebody's own, in the version `source` of its Secret."""
    if is_known and credential.source == source:
        return PasswordPlan(password=given, credential=credential)
    # With a salt of its own: what was given before is not to be valid any longer.
    changed = Credential(changed=now, source=source, salt=credential.salt + 1)
    return PasswordPlan(password=given, credential=changed, is_told=True)


def credential_text(credential: Credential) -> str:
    """The form in which it stands at a Secret."""
    return json.dumps(credential_fields(credential), sort_keys=True, separators=(",", ":"))


def credential_of(text: str, status: Mapping[str, Any]) -> Credential:
    """What a Secret remembers; without one the salts that a status knows to be used up."""
    try:
        if text:
            return _credential(json.loads(text))
    except (ValueError, TypeError, AttributeError):
        logger.warning("what was remembered of a password cannot be read: it is told anew")
    return Credential(salt=int((status.get("credential") or {}).get("salt") or 0))


def _credential(found: Mapping[str, Any]) -> Credential:
    return Credential(
        changed=_moment(found.get("changed")),
        source=str(found.get("source") or ""),
        salt=int(found.get("salt") or 0),
        overlap_ends=_moment(found.get("overlapEnds")),
    )


def credential_fields(credential: Credential) -> dict[str, Any]:
    """The fields, without those that are not known."""
    fields = {
        "changed": credential.changed and timestamp(credential.changed),
        "source": credential.source,
        "salt": credential.salt,
        "overlapEnds": credential.overlap_ends and timestamp(credential.overlap_ends),
    }
    return {key: value for key, value in fields.items() if value}


def _moment(text: object) -> datetime | None:
    return datetime.fromisoformat(str(text)) if text else None


def salt_of(uid: str, credential: Credential) -> bytes:
    """The salt of a User's password: another one for each User and each count."""
    text = f"barnabas scram salt {uid} {credential.salt}"
    return hashlib.sha256(text.encode()).digest()[:_SALT_BYTES]


def next_look(credential: Credential, rotation: Rotation | None) -> datetime | None:
    """When something is due, None for never."""
    due = [credential.overlap_ends]
    if rotation is not None and credential.changed is not None:
        due.append(credential.changed + rotation.every)
    return min((one for one in due if one is not None), default=None)
