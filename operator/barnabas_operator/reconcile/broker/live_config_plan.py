"""Settings that change while brokers run. Pure.

Declared settings are in the properties files, so a broker that starts has them. One that differs
from what a running broker started with is set for all brokers through the protocol, if the brokers
say that it can be; if not, the difference is a reason for a restart.

What the operator has set so is remembered in the status. When a declared setting goes away, such a
value goes back to the built-in default as long as a broker runs that started with another one, and
is removed when there is none. What others have set is left alone unless it is declared: then what
is declared holds.

`min.insync.replicas` counts as declared where brokers have a value for the whole cluster: from
level 2 of `barnabas.version` on they have one always, and what is in their files has no effect.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

from barnabas_operator.broker_spec import BrokerSpec
from barnabas_operator.reconcile.broker.cluster_state import BrokerSettings
from barnabas_operator.reconcile.broker.observed import Observed
from barnabas_operator.reconcile.broker.properties import size_defaults

_MIN_IN_SYNC: Final = "min.insync.replicas"


@dataclass(frozen=True, slots=True, kw_only=True)
class LiveConfigPlan:
    """`assigned` and `removed` are to be changed now; `remembered` is what the status then says.

    `live` are the settings for which no broker has to be restarted. `unknown` are declared settings
    that the brokers do not know: they would refuse to start with them.
    """

    assigned: Mapping[str, str] = field(default_factory=dict)
    removed: tuple[str, ...] = ()
    remembered: Mapping[str, str] = field(default_factory=dict)
    live: frozenset[str] = frozenset()
    unknown: tuple[str, ...] = ()


def plan_live_config(spec: BrokerSpec, observed: Observed) -> LiveConfigPlan:
    """What to change; nothing is known while no broker answers."""
    remembered = dict(observed.remembered.live_config)
    settings = None if observed.cluster is None else observed.cluster.settings
    if settings is None:
        return LiveConfigPlan(remembered=remembered)
    declared = _declared(spec, settings)
    started = [pod.config for pod in observed.pods.values() if not pod.is_gated]
    live = frozenset(_live(declared, settings, started))
    assigned: dict[str, str] = {}
    removed: list[str] = []
    for key in sorted(live | (remembered.keys() & settings.live)):
        found = settings.overrides.get(key)
        wanted = declared.get(key, settings.defaults.get(key))
        differs = any(config.get(key) != spec.config.get(key) for config in started)
        if key in declared:
            if found != wanted and (differs or found is not None):
                assigned[key] = declared[key]
        elif differs and wanted is not None:
            if found != wanted:
                assigned[key] = wanted
        elif key in remembered:
            if found is not None:
                removed.append(key)
            del remembered[key]
    remembered.update(assigned)
    return LiveConfigPlan(
        assigned=assigned,
        removed=tuple(removed),
        remembered=remembered,
        live=live,
        unknown=tuple(
            key
            for key in spec.config
            if key not in settings.known and not key.startswith("listener.name.")
        ),
    )


def _declared(spec: BrokerSpec, settings: BrokerSettings) -> dict[str, str]:
    """The settings that hold whatever others have set."""
    if _MIN_IN_SYNC not in settings.overrides:
        return dict(spec.config)
    return {_MIN_IN_SYNC: size_defaults(spec.replicas)[_MIN_IN_SYNC], **spec.config}


def _live(
    wanted: Mapping[str, str], settings: BrokerSettings, started: list[Mapping[str, str]]
) -> Iterator[str]:
    """The settings that are declared, or were for some broker, and that can change in place."""
    declared = wanted.keys() | {key for config in started for key in config}
    for key in declared & settings.live:
        if key in wanted or key in settings.defaults:
            yield key
