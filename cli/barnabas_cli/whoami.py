"""`barnabas whoami`: who brokers take this client for, and what it may do to the cluster.

Kafka's protocol has no request that tells a client its own name. By log-in it is the name that was
logged in with; by certificate it is its subject, unless the brokers' ssl.principal.mapping.rules
make another one of it; of a token it is a claim, by default the subject.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from barnabas_cli.connection import Connection, with_connection
from barnabas_cli.output import Output, with_output

if TYPE_CHECKING:
    from barnabas_client.admin.admin import Admin
    from barnabas_client.config import AdminSettings

ANONYMOUS = "User:ANONYMOUS"


@click.command("whoami")
@with_output
@with_connection
def command(connection: Connection, output: Output) -> None:
    """Show who brokers take this client for, and its rights to the cluster."""
    found = connection.run_admin(lambda admin: _found(admin, connection))
    if not output.is_table:
        output.data(found)
        return
    click.echo(f"{found['principal']}  by {found['by']}")
    click.echo(f"  cluster {found['cluster_id'] or '-'} at {connection.bootstrap_servers}")
    operations = found["cluster_operations"]
    rights = "not told by this cluster" if operations is None else ", ".join(operations) or "none"
    click.echo(f"  rights to the cluster: {rights}")


async def _found(admin: Admin, connection: Connection) -> dict[str, Any]:
    described = await admin.cluster.describe(include_authorized_operations=True)
    settings = connection.admin_settings()
    principal, by = principal_of(settings)
    operations = described.authorized_operations
    return {
        "principal": principal,
        "by": by,
        "security_protocol": settings.security_protocol,
        "cluster_id": described.cluster_id,
        "cluster_operations": None
        if operations is None
        else sorted(one.name.lower().replace("_", "-") for one in operations),
    }


def principal_of(settings: AdminSettings) -> tuple[str, str]:
    """The principal that the settings lead to, and by what."""
    from barnabas_protocol.web_tokens.web_token import shown_subject

    protocol = settings.security_protocol
    if settings.uses_sasl and settings.sasl_oauthbearer_token_file is not None:
        token = Path(settings.sasl_oauthbearer_token_file).read_text(encoding="utf-8")
        subject = shown_subject(token.strip())
        return f"User:{subject or '(the subject of the token)'}", f"a token, {protocol}"
    if settings.uses_sasl and settings.sasl_username is not None:
        return f"User:{settings.sasl_username}", f"{settings.sasl_mechanism}, {protocol}"
    certificate = settings.ssl_certificate_pem
    if settings.ssl_certfile is not None:
        certificate = Path(settings.ssl_certfile).read_text(encoding="utf-8")
    if protocol == "SSL" and certificate is not None:
        name = _subject_of_certificate(certificate)
        return f"User:{name}", "a certificate, unless the brokers' mapping rules rename it"
    return ANONYMOUS, f"nothing, {protocol}"


def _subject_of_certificate(text: str) -> str:
    """The subject of the first one as RFC 2253 writes it, the most special part first."""
    from cryptography import x509

    return x509.load_pem_x509_certificates(text.encode())[0].subject.rfc4514_string()
