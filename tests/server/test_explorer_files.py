"""The files of the page: where they are not built, it says so, and everything else works."""

from pathlib import Path

import pytest

from omnigraph.server.http import routes_explorer
from serving import TOKENS, Served, serving

ADMIN = {"Authorization": f"Bearer {TOKENS['admin']}"}


@pytest.fixture
def bare(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Served:
    """A server of a source tree without the built files."""
    monkeypatch.setattr(routes_explorer, "FILES", tmp_path / "not built")
    return serving(tmp_path)


def test_a_page_that_was_not_built_says_how_to_and_everything_else_works(bare: Served) -> None:
    with bare.client as client:
        led = client.get("/", follow_redirects=False)
        page = client.get("/explorer/")
        asked = client.get("/graphs", headers=ADMIN)

    assert (led.status_code, led.headers["location"]) == (307, "/explorer/")
    assert page.status_code == 404
    assert "python tools/build_explorer.py" in page.text
    assert page.headers["content-type"] == "text/html; charset=utf-8"
    assert page.headers["x-frame-options"] == "DENY"
    assert asked.status_code == 200


def test_a_file_is_served_with_its_type_its_tag_and_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = tmp_path / "built"
    (files / "assets").mkdir(parents=True)
    (files / "index.html").write_text("<!doctype html>", encoding="utf-8")
    (files / "assets" / "main-1.js").write_text("0", encoding="utf-8")
    (files / "built.sha256").write_text("secret", encoding="utf-8")
    monkeypatch.setattr(routes_explorer, "FILES", files)
    with serving(tmp_path).client as client:
        script = client.get("/explorer/assets/main-1.js")
        again = client.get("/explorer/assets/main-1.js", headers={"If-None-Match": script.headers["etag"]})
        head = client.head("/explorer/assets/main-1.js")
        mark = client.get("/explorer/built.sha256")

    assert script.headers["content-type"] == "text/javascript; charset=utf-8"
    assert "immutable" in script.headers["cache-control"]
    assert (again.status_code, again.content) == (304, b"")
    assert (head.status_code, head.headers["etag"], head.content) == (200, script.headers["etag"], b"")
    assert mark.status_code == 404
