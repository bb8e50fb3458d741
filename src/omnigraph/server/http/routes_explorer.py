"""The explorer: a page in the browser, as files that are built before the package is, and served without a token.

Nothing in the files depends on a graph or an actor: the page asks the other routes, with the token of its user.
"""

from functools import cache
from hashlib import sha256
from pathlib import Path

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

FILES = Path(__file__).parents[1] / "explorer"
"""Where `tools/build_explorer.py` puts what it builds; absent from a source tree where it has not run."""
PAGE = "/explorer/"
# Monitors and link checkers ask for headers alone; the server leaves the body out.
_METHODS = ["GET", "HEAD"]
_MEDIA_TYPES = {
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".svg": "image/svg+xml",
    ".txt": "text/plain; charset=utf-8",
}
_POLICY = (
    "default-src 'none'; script-src 'self'; worker-src 'self'; style-src 'self'; img-src 'self' blob:; font-src 'self';"
    " connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
_HEADERS = {
    "Content-Security-Policy": _POLICY,
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
}
_MISSING = """<!doctype html>
<html lang="en"><meta charset="utf-8"><title>omnigraph explorer</title>
<h1>The explorer is not part of this installation</h1>
<p>This server runs from sources in which the page was not built. Everything else works.</p>
<p>Build it with <code>python tools/build_explorer.py</code>, or install a released wheel.</p>
</html>
"""

router = APIRouter(include_in_schema=False)


def is_explorer_path(path: str) -> bool:
    """Return whether a path is one of the page's own, which need no token."""
    return path in {"/", "/explorer"} or path.startswith(PAGE)


@router.api_route("/", methods=_METHODS)
@router.api_route("/explorer", methods=_METHODS)
async def redirect() -> Response:
    """Lead to the page."""
    return RedirectResponse(PAGE, 307, headers=_HEADERS)


@router.api_route(PAGE, methods=_METHODS)
@router.api_route("/explorer/{name:path}", methods=_METHODS)
async def read_explorer_file(request: Request, name: str = "") -> Response:
    """Return a file of the page."""
    found = _read_files(FILES)
    if not found:
        return Response(_MISSING, 404, _HEADERS, media_type=_MEDIA_TYPES[".html"])
    entry = found.get(name or "index.html")
    if entry is None:
        return Response("There is no such file.\n", 404, _HEADERS, media_type=_MEDIA_TYPES[".txt"])
    content, tag = entry
    # Names below `assets` contain a hash of what they name.
    is_lasting = name.startswith("assets/")
    headers = {
        **_HEADERS,
        "ETag": tag,
        "Cache-Control": "public, max-age=31536000, immutable" if is_lasting else "no-cache",
    }
    if request.headers.get("if-none-match") == tag:
        return Response(status_code=304, headers=headers)
    return Response(content, 200, headers, media_type=_MEDIA_TYPES[Path(name or "index.html").suffix])


@cache  # the files of an installation do not change while the process runs
def _read_files(root: Path) -> dict[str, tuple[bytes, str]]:
    """Return the files by their paths, each with its entity tag: only these are served, whatever a request names."""
    return {
        path.relative_to(root).as_posix(): (content := path.read_bytes(), f'"{sha256(content).hexdigest()[:32]}"')
        for path in sorted(root.rglob("*"))
        if path.is_file() and path.suffix in _MEDIA_TYPES
    }
