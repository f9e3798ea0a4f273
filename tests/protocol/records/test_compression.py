import gzip
import tracemalloc

import cramjam
import lz4.frame
import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st

from barnabas_protocol.errors import ParseError
from barnabas_protocol.records.compression import (
    Compression,
    DecompressedTooLargeError,
    compress,
    decompress,
)
from barnabas_protocol.records.record import Record, decode_records, encode_batch

CODECS = [Compression.GZIP, Compression.SNAPPY, Compression.LZ4, Compression.ZSTD]
TEXT = b"the quick brown fox jumps over the lazy dog, " * 4000


@given(st.sampled_from(list(Compression)), st.binary(max_size=3000), st.integers(1, 60))
def test_data_survives_a_round_trip(codec: int, data: bytes, times: int) -> None:
    """Every codec, also above one block, at a limit that is exactly enough."""
    data = data * times
    assert decompress(codec, memoryview(compress(codec, bytearray(data))), len(data)) == data


@pytest.mark.parametrize("codec", CODECS)
def test_one_byte_above_the_limit_is_refused(codec: int) -> None:
    """formats.md 3: the decompressed size is always bounded."""
    with pytest.raises(DecompressedTooLargeError):
        decompress(codec, compress(codec, TEXT), len(TEXT) - 1)


@pytest.mark.parametrize("codec", CODECS)
def test_a_decompression_bomb_costs_no_memory(codec: int) -> None:
    """32 MiB of zeros in a small batch, with a limit of 1 MiB."""
    bomb = compress(codec, bytes(32 << 20))
    assert len(bomb) < 2 << 20
    tracemalloc.start()
    with pytest.raises(DecompressedTooLargeError):
        decompress(codec, bomb, 1 << 20)
    peak_bytes = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak_bytes < 8 << 20


@pytest.mark.parametrize("codec", CODECS)
def test_a_bomb_in_a_batch_is_refused(codec: int) -> None:
    """The reader of whole batches passes its limit on."""
    batch = encode_batch([Record(0, 0, None, bytes(1 << 20))], compression=codec)
    with pytest.raises(DecompressedTooLargeError):
        decode_records(batch, max_decompressed_bytes=1000)


def test_both_forms_of_snappy_are_read() -> None:
    """formats.md 3: Java writes the xerial stream, librdkafka raw blocks; we write framed."""
    framed = compress(Compression.SNAPPY, TEXT)
    assert framed.startswith(b"\x82SNAPPY\x00\x00\x00\x00\x01\x00\x00\x00\x01")
    assert decompress(Compression.SNAPPY, framed, len(TEXT)) == TEXT
    raw = bytes(cramjam.snappy.compress_raw(TEXT))
    assert decompress(Compression.SNAPPY, raw, len(TEXT)) == TEXT
    short = bytes(cramjam.snappy.compress_raw(b"v"))
    assert decompress(Compression.SNAPPY, short, 1) == b"v"


def test_the_promise_of_a_raw_snappy_block_is_checked_first() -> None:
    """A few bytes may claim 4 GiB."""
    with pytest.raises(DecompressedTooLargeError):
        decompress(Compression.SNAPPY, b"\xff\xff\xff\xff\x0f" + b"x" * 20, 1 << 20)


def test_several_gzip_members_are_read_as_one() -> None:
    """formats.md 3."""
    members = gzip.compress(TEXT) + gzip.compress(b"") + gzip.compress(b"more")
    assert decompress(Compression.GZIP, members, 1 << 20) == TEXT + b"more"


def test_several_frames_of_lz4_and_zstd_are_read_as_one() -> None:
    """Both formats allow it, and Java's readers go on to the next frame."""
    frames = lz4.frame.compress(TEXT, block_linked=True, content_checksum=True, store_size=True)
    assert decompress(Compression.LZ4, frames + frames, 1 << 20) == TEXT * 2
    streamed = zstandard.ZstdCompressor(write_content_size=False).compress(TEXT)
    sized = zstandard.ZstdCompressor().compress(TEXT)
    assert decompress(Compression.ZSTD, streamed + sized, 1 << 20) == TEXT * 2
    assert decompress(Compression.ZSTD, sized + streamed, 1 << 20) == TEXT * 2


def test_lz4_frames_have_the_flags_that_java_reads() -> None:
    """Version 1, independent blocks, no content size, 64 KiB blocks."""
    information = lz4.frame.get_frame_info(compress(Compression.LZ4, TEXT))
    assert information["block_size"] == 64 * 1024
    assert not information["block_linked"]
    assert information["content_size"] == 0


@given(st.sampled_from(CODECS), st.binary(max_size=200))
def test_noise_raises_only_parse_errors(codec: int, noise: bytes) -> None:
    """Whatever a client sends as records."""
    try:
        decompress(codec, noise, 1 << 20)
    except ParseError:
        return


@pytest.mark.parametrize("codec", CODECS)
def test_data_that_is_cut_off_is_an_error(codec: int) -> None:
    """Half of the records must not pass as all of them."""
    packed = compress(codec, TEXT)
    for size in (0, 1, 10, len(packed) // 2, len(packed) - 1):
        if codec == Compression.SNAPPY and size == 0:
            continue
        with pytest.raises(ParseError):
            decompress(codec, packed[:size], 1 << 20)


def test_unassigned_codecs_are_errors() -> None:
    """The attributes have room for 5 to 7."""
    with pytest.raises(ParseError):
        decompress(5, b"", 10)
    with pytest.raises(ValueError, match="no compression codec"):
        compress(7, b"")


@pytest.mark.parametrize("codec", [Compression.GZIP, Compression.LZ4])
def test_members_that_follow_one_another_are_read_and_their_number_is_bounded(codec: int) -> None:
    """Attack: what a member leaves over was copied for each of them, a quadratic time."""
    member = compress(codec, b"x" * 100)
    assert decompress(codec, member * 64, 1 << 20) == b"x" * 6_400
    with pytest.raises(ParseError, match="more than 64 members"):
        decompress(codec, member * 65, 1 << 20)
    with pytest.raises(ParseError, match="cut off"):
        decompress(codec, member * 2 + member[:-1], 1 << 20)
    large = compress(codec, TEXT)
    assert decompress(codec, member + large + member, 1 << 24) == b"x" * 100 + TEXT + b"x" * 100


def test_blocks_of_a_snappy_stream_are_bounded() -> None:
    stream = compress(Compression.SNAPPY, b"")
    block = (1).to_bytes(4, "big") + b"\0"
    assert decompress(Compression.SNAPPY, stream + block * 1000, 1 << 27) == b""
    with pytest.raises(ParseError, match="blocks"):
        decompress(Compression.SNAPPY, stream + block * 65_537, 1 << 27)


def test_a_snappy_stream_of_tiny_blocks_is_as_good_as_a_large_one() -> None:
    """Six thousand of a byte each took 9 ms, whatever they were decompressed to."""
    header = compress(Compression.SNAPPY, b"")
    blocks = header + b"\0\0\0\x01\0" * 6_000
    with pytest.raises(DecompressedTooLargeError):
        decompress(Compression.SNAPPY, blocks, 32 * 1024)
    assert decompress(Compression.SNAPPY, blocks, 16 * 1024 * 1024) == b""
