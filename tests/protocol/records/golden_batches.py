"""Batches as Apache Kafka has written them."""

GOLDEN = bytes.fromhex(
    "0000000000000000 0000003a ffffffff 02 fe917cab 0000 00000000 0000000000000000"
    "0000000000000000 ffffffffffffffff ffff ffffffff 00000001 10 00 00 00 02 6b 02 76 00"
)
