"""Tells who keeps a broker's secrets in files that everybody on the machine can read, as ssh does.

Not here: the settings themselves, what is in the files, which of them are open to everybody and
what is told (`barnabas_protocol.settings.secret_files`).
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from pathlib import Path

from barnabas_broker.config.parse import BrokerConfig
from barnabas_protocol.settings.secret_files import mount_link, warning_of

_log = logging.getLogger(__name__)


def warn_of_readable_secrets(config: BrokerConfig) -> None:
    """Write a warning for each file with keys, passwords or tokens that others may read."""
    for setting, path in dict.fromkeys(_secret_files(config)):
        if path is None:
            continue
        try:
            mode = Path(path).stat().st_mode
            is_mounted = Path(mount_link(path)).is_symlink()
        except OSError:
            continue  # whoever reads it tells
        warning = warning_of(setting, path, mode, is_mounted=is_mounted)
        if warning is not None:
            _log.warning("%s", warning)


def _secret_files(config: BrokerConfig) -> Iterator[tuple[str, str | None]]:
    for settings in config.tls.values():
        yield "barnabas.ssl.key.file", settings.key_file
        yield "ssl.keystore.location", settings.keystore_file
    yield "barnabas.bootstrap.users.file", config.barnabas_bootstrap_users_file
    yield "barnabas.broker.users.file", config.barnabas_broker_users_file
    yield "admin.http.token.file", config.admin_http_token_file
    if config.arbiter_etcd_client_key_file is not None:
        yield "arbiter.etcd.client.key.file", config.arbiter_etcd_client_key_file
    else:  # it is in the same file
        yield "arbiter.etcd.client.certificate.file", config.arbiter_etcd_client_certificate_file
    yield "arbiter.kubernetes.token.file", config.arbiter_kubernetes_token_file
