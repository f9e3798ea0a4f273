"""Credentials of Users: certificates are signed, passwords made, changed and told to brokers.

Not here: when a password changes (`password.py`), what the files look like (`connection_files.py`).
"""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

from barnabas_operator.certificates.authority import KeyPair, LeafRequest
from barnabas_operator.certificates.authority_secret import secret_text
from barnabas_operator.certificates.pem import CertificateError, ends
from barnabas_operator.certificates.renewal import renewed
from barnabas_operator.gateway.kafka_users import UserGateway
from barnabas_operator.kubernetes.api import KubernetesApi, Object
from barnabas_operator.kubernetes.kinds import SECRET
from barnabas_operator.kubernetes.objects import annotations_of, resource_version_of, uid_of
from barnabas_operator.reconcile.user.broker_access import BrokerAccess
from barnabas_operator.reconcile.user.connection_files import (
    certificate_files,
    password_files,
    token_files,
)
from barnabas_operator.reconcile.user.password import (
    ITERATIONS,
    Credential,
    PasswordPlan,
    credential_of,
    credential_text,
    plan_given_password,
    plan_made_password,
    salt_of,
)
from barnabas_operator.reconcile.user.user_files import UserFiles
from barnabas_operator.reconcile.user.user_plan import ObservedUser
from barnabas_operator.user_spec import Authentication, PasswordSource, UserSpec

PENDING_KEY = "next-password"
CREDENTIAL_ANNOTATION = "barnabas.dev/credential"
_PASSWORD_BYTES = 24


class NotReadyError(Exception):
    """Something that a credential needs is not there yet; the text says what."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Issued:
    """What a User has by now."""

    credential: Credential
    secret: str | None = None
    certificate_ends: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class CredentialInputs:
    """One User at a moment: what is wanted, what brokers have of it, and how they are told."""

    user: Object
    spec: UserSpec
    access: BrokerAccess
    gateway: UserGateway
    observed: ObservedUser
    now: datetime


class UserCredentials:
    """Makes them."""

    def __init__(self, api: KubernetesApi) -> None:
        self._api = api
        self._files = UserFiles(api)

    async def settle(self, inputs: CredentialInputs) -> Issued:
        """Bring a User's credential and its files to what is wanted.

        What is under a former name goes when the new one has it: passwords and keys are the same.
        Raises: NotReadyError; NotOursError; CertificateError; KubernetesError; BarnabasError.
        """
        user, spec = inputs.user, inputs.spec
        has_password = spec.authentication is Authentication.SCRAM_SHA_512
        if not has_password and inputs.observed.has_credential:
            await inputs.gateway.remove_credentials(spec.name)
        if spec.authentication is Authentication.NONE:
            return Issued(credential=Credential())
        if not inputs.access.bundle:
            raise NotReadyError("the Broker has no authority yet")
        found = await self._files.find(user, spec)
        former = await self._files.former(user, spec)
        if found is None and former is not None:
            # All of it, before anything is decided by what it holds.
            remembered = annotations_of(former).get(CREDENTIAL_ANNOTATION)
            noted = {CREDENTIAL_ANNOTATION: remembered} if remembered else {}
            found = await self._files.copy(user, spec, former, noted)
        issued = await self._settle_files(inputs, found)
        if former is not None:
            await self._files.remove(spec, former)
        return issued

    async def _settle_files(self, inputs: CredentialInputs, found: Object | None) -> Issued:
        user, spec, access = inputs.user, inputs.spec, inputs.access
        if spec.authentication is Authentication.SERVICE_ACCOUNT:
            await self._files.write(user, spec, found, token_files(spec, access))
            return Issued(credential=Credential(), secret=spec.secret)
        if spec.authentication is Authentication.TLS:
            pair = _leaf(inputs, found)
            await self._files.write(user, spec, found, certificate_files(spec, access, pair))
            return Issued(
                credential=Credential(), secret=spec.secret, certificate_ends=ends(pair.certificate)
            )
        plan = await self._settle_password(inputs, found)
        return Issued(credential=plan.credential, secret=spec.secret)

    async def _settle_password(
        self, inputs: CredentialInputs, found: Object | None
    ) -> PasswordPlan:
        """Keep a new password, tell the brokers, put it into use: in this order."""
        user, spec, access = inputs.user, inputs.spec, inputs.access
        remembered = annotations_of(found or {}).get(CREDENTIAL_ANNOTATION, "")
        credential = credential_of(remembered, user.get("status") or {})
        plan = await self._password(inputs, found, credential)
        if plan.pending and plan.pending != secret_text(found, PENDING_KEY):
            present = secret_text(found, "password")
            kept = password_files(spec, access, present) if present else {}
            noted = {CREDENTIAL_ANNOTATION: remembered} if remembered else {}
            await self._files.write(user, spec, None, {**kept, PENDING_KEY: plan.pending}, noted)
            found = None
        if plan.is_told:
            salt = salt_of(uid_of(user), plan.credential)
            await inputs.gateway.set_password(spec.name, plan.password, salt, ITERATIONS)
        noted = {CREDENTIAL_ANNOTATION: credential_text(plan.credential)}
        files = password_files(spec, access, plan.password)
        await self._files.write(user, spec, found, files, noted)
        return plan

    async def _password(
        self, inputs: CredentialInputs, found: Object | None, credential: Credential
    ) -> PasswordPlan:
        spec, is_known = inputs.spec, inputs.observed.has_credential
        if spec.password_source is not None:
            given, version = await self._given(spec, spec.password_source)
            return plan_given_password(
                given=given,
                source=version,
                credential=credential,
                is_known=is_known,
                now=inputs.now,
            )
        return plan_made_password(
            present=secret_text(found, "password"),
            pending=secret_text(found, PENDING_KEY),
            credential=credential,
            is_known=is_known,
            rotation=spec.rotation,
            now=inputs.now,
            new_password=secrets.token_urlsafe(_PASSWORD_BYTES),
        )

    async def _given(self, spec: UserSpec, source: PasswordSource) -> tuple[str, str]:
        """The password and its version; only ever from the User's own namespace (SEC-86)."""
        secret: Mapping[str, object] | None = await self._api.get(
            SECRET, spec.namespace, source.secret
        )
        given = secret_text(secret, source.key)
        if secret is None or not given:
            raise NotReadyError(f"Secret {source.secret} has no {source.key}")
        if given != given.strip() or not given.isprintable():
            raise CertificateError(
                f"{source.key} of Secret {source.secret} has blanks at an end, or a line break"
            )
        return given, f"{uid_of(secret)}/{resource_version_of(secret)}"


def _leaf(inputs: CredentialInputs, found: Object | None) -> KeyPair:
    """The certificate that clients show, renewed when it is due. Raises: NotReadyError."""
    authority = inputs.access.clients
    if authority is None:
        raise NotReadyError("the Broker has no authority for clients yet")
    request = LeafRequest(common_name=inputs.spec.name)
    chain, key = secret_text(found, "user.crt"), secret_text(found, "user.key")
    present = KeyPair(chain=chain, key=key) if chain and key else None
    return renewed(present, authority, request, inputs.now)
