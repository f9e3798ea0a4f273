"""kafka-python's own codecs, as a second opinion; its import warns on Python 3.11, ours may not."""

import warnings
from types import SimpleNamespace

import cramjam

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    import kafka.codec
    from kafka.partitioner.default import murmur2 as other_murmur2
    from kafka.record.default_records import DefaultRecordBatch, DefaultRecordBatchBuilder

# The framing of snappy is kafka-python's own; only the raw blocks come from the library we have.
kafka.codec.snappy = SimpleNamespace(
    compress=lambda data: bytes(cramjam.snappy.compress_raw(data)),
    decompress=lambda data: bytes(cramjam.snappy.decompress_raw(bytes(data))),
)

__all__ = ["DefaultRecordBatch", "DefaultRecordBatchBuilder", "other_murmur2"]
