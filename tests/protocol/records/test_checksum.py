import subprocess
import sys

from barnabas_protocol.records.checksum import crc32c


def test_checksum_is_castagnoli() -> None:
    """formats.md 12."""
    assert crc32c(b"123456789") == 0xE3069283
    assert crc32c(memoryview(b"x123456789")[1:]) == 0xE3069283


def test_loading_it_does_not_drag_in_the_package_metadata() -> None:
    """Goal 7 of the broker: a quick start; the package reads its metadata when imported."""
    code = (
        "import sys; before = set(sys.modules); import barnabas_protocol.records.batch;"
        "new = set(sys.modules) - before; print(sorted(new & {'importlib.metadata', 'argparse'}))"
    )
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "[]"
