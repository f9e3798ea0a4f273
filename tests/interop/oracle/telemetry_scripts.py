"""Scripts about client telemetry (KIP-714): who may ask and push when, and what is refused."""

from typing import Any

from barnabas_protocol.api import ApiKey
from barnabas_protocol.records.compression import Compression, compress
from tests.interop.oracle.side import Side
from tests.support.otlp import gauge, metrics_data, point, total

METRICS = 16
ZERO, ONE = bytes(16), bytes(15) + b"\x01"
DATA = metrics_data(gauge("org.a.size", point(2.5, topic="t")), total("org.a.sent", point(3)))
MAX_BYTES = 1 << 20


def _instance(number: int) -> bytes:
    return b"oracle" + bytes([number]) * 10


async def _subscribe(side: Side, **values: str | None) -> None:
    configs = [
        {"name": name.replace("_", "."), "config_operation": int(value is None), "value": value}
        for name, value in values.items()
    ]
    await side.call(
        ApiKey.INCREMENTAL_ALTER_CONFIGS,
        silent=True,
        resources=[
            {"resource_type": METRICS, "resource_name": side.named("all"), "configs": configs}
        ],
    )
    interval = values.get("interval_ms") or "300000"
    await side.until(
        lambda answer: answer.push_interval_ms == int(interval),
        ApiKey.GET_TELEMETRY_SUBSCRIPTIONS,
        client_instance_id=ZERO,
    )


async def _get(side: Side, label: str, instance: bytes, *, silent: bool = False) -> Any:
    return await side.call(
        ApiKey.GET_TELEMETRY_SUBSCRIPTIONS,
        None,
        f"{label} get",
        silent=silent,
        client_instance_id=instance,
    )


async def _push(
    side: Side,
    label: str,
    told: Any,
    instance: bytes,
    metrics: bytes = DATA,
    **changes: Any,
) -> None:
    fields = {
        "client_instance_id": instance,
        "subscription_id": told.subscription_id,
        "terminating": False,
        "compression_type": 0,
        "metrics": metrics,
        **changes,
    }
    await side.call(ApiKey.PUSH_TELEMETRY, None, label, **fields)


async def client_telemetry(side: Side) -> None:
    """TEL-2 to TEL-4: subscriptions, times, ids, codecs and sizes."""
    nothing = await _get(side, "without a subscription", _instance(0))
    side.note("nothing to push", len(nothing.requested_metrics))
    await _subscribe(side, metrics="org.b.,org.a.", interval_ms="60000", match="client_id=raw-.*")
    first = await _get(side, "first", _instance(1))
    new = await _get(side, "", ZERO, silent=True)
    side.note("new instance", [new.error_code, new.client_instance_id == ZERO])
    await _get(side, "too early", _instance(1))
    await _push(side, "in time", first, _instance(1))
    await _push(side, "too early", first, _instance(1))
    await _get(side, "after a push", _instance(1))
    for number, (label, changes) in enumerate(
        {
            "other subscription": {"subscription_id": 7},
            "unknown codec": {"compression_type": 9},
            "negative codec": {"compression_type": -1},
            "cut off": {"metrics": DATA[:-1]},
            "wrong wire type": {"metrics": b"\x08\x01\x0a\x05"},
            "broken text": {"metrics": metrics_data(gauge("a", point(1))).replace(b"a", b"\xff")},
            "a group": {"metrics": b"\x0b"},
            "not compressed": {"compression_type": 4},
            "largest": {"metrics": b"\x12" + b"\xfc\xff\x3f" + bytes(MAX_BYTES - 4)},
            "too large": {"metrics": bytes(MAX_BYTES + 1)},
            "nothing": {"metrics": b""},
        }.items()
    ):
        instance = _instance(10 + number)
        told = await _get(side, "", instance, silent=True)
        await _push(side, label, told, instance, **changes)
        await _get(side, f"after {label}", instance)
        await _push(side, f"after {label}", told, instance)
    for codec in Compression:
        instance = _instance(40 + codec)
        told = await _get(side, "", instance, silent=True)
        data = compress(codec, DATA)
        await _push(side, f"codec {codec}", told, instance, data, compression_type=int(codec))
    for name, reserved in (("zero", ZERO), ("one", ONE)):
        await _push(side, f"as {name}", first, reserved)
    last = await _get(side, "last", _instance(50))
    await _push(side, "last", last, _instance(50))
    await _push(side, "last", last, _instance(50), terminating=True)
    await _push(side, "after the last", last, _instance(50), terminating=True)
    await _subscribe(side, metrics="*", interval_ms="50000")
    await _get(side, "changed", _instance(1))
    await _push(side, "for what was", first, _instance(1))
    await _get(side, "told so", _instance(1))
    await _subscribe(side, metrics=None, interval_ms=None, match=None)
    await _get(side, "gone", _instance(1))


SCRIPTS = (client_telemetry,)
