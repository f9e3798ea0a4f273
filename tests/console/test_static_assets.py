"""The page's files: immutable under a version, and nothing but them (CON-138, CON-142)."""

import gzip
from pathlib import Path

from barnabas_console.static_assets import StaticAssets


def folder(path: Path, script: str = "export const one = 1;\n" * 50) -> Path:
    path.mkdir()
    (path / "index.html").write_text('<script src="{{assets}}/app.js"></script>{{prefix}}')
    (path / "app.js").write_text(script)
    (path / "pages").mkdir()
    (path / "pages" / "topics.js").write_text("export default 1;\n")
    return path


def test_files_are_found_under_their_version_alone(tmp_path: Path) -> None:
    assets = StaticAssets(version="0.2.0", prefix="/console", folder=folder(tmp_path / "static"))
    found = assets.find(assets.version, "pages/topics.js")
    assert found is not None and found.content_type == "text/javascript"
    assert assets.find("0.1.0", "pages/topics.js") is None
    script = assets.find(assets.version, "app.js")
    assert script is not None and script.zipped is not None
    assert gzip.decompress(script.zipped) == script.body


def test_the_page_names_its_files_by_version_and_prefix(tmp_path: Path) -> None:
    assets = StaticAssets(version="0.2.0", prefix="/console", folder=folder(tmp_path / "static"))
    expected = f'<script src="/console/assets/{assets.version}/app.js"></script>/console'
    assert assets.index.body.decode() == expected


def test_a_changed_file_is_another_version(tmp_path: Path) -> None:
    first = StaticAssets(version="0.2.0", prefix="", folder=folder(tmp_path / "one"))
    second = StaticAssets(version="0.2.0", prefix="", folder=folder(tmp_path / "two", "other"))
    assert first.version != second.version
    assert first.version.startswith("0.2.0-")


def test_no_path_leads_out_of_the_folder(tmp_path: Path) -> None:
    (tmp_path / "secret.txt").write_text("password")
    place = folder(tmp_path / "static")
    (place / "link.txt").symlink_to(tmp_path / "secret.txt")
    assets = StaticAssets(version="0.2.0", prefix="", folder=place)
    for name in ("../secret.txt", "pages/../../secret.txt", "/etc/passwd", "link.txt", ""):
        assert assets.find(assets.version, name) is None
