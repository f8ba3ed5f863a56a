"""Builds the pages as a site into site/: strictly, without a network, and so that a browser loads nothing from elsewhere."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent
SITE = ROOT / "site"
START = "docs/README.html"
#: Attributes of HTML, and functions of CSS, by which a browser fetches something without being asked.
_LOADED = re.compile(
    r"""<(?:script|img|iframe|source|video|audio|embed)\b[^>]*\bsrc\s*=\s*["']?(?:https?:)?//[^\s"'>]+"""
    r"""|<link\b(?=[^>]*\brel\s*=\s*["']?(?:stylesheet|icon|preload|preconnect|dns-prefetch))[^>]*\bhref\s*=\s*["']?(?:https?:)?//[^\s"'>]+"""
    r"""|@import\s+(?:url\()?["']?(?:https?:)?//[^\s"')]+|url\(\s*["']?(?:https?:)?//[^\s"')]+""",
    re.IGNORECASE,
)


def main() -> int:
    shutil.rmtree(SITE, ignore_errors=True)
    build = [sys.executable, "-m", "sphinx", "-q", "-W", "--keep-going", "-b", "html", "-j", "auto"]
    where = ["-c", str(ROOT / "docs" / "site"), "-d", str(SITE / ".doctrees"), str(ROOT), str(SITE)]
    if code := subprocess.run([*build, *where], check=False).returncode:
        return code
    shutil.rmtree(SITE / ".doctrees")
    (SITE / "index.html").write_text(
        f'<!doctype html><meta charset="utf-8"><title>dray</title><meta http-equiv="refresh" content="0; url={START}">'
        f'<a href="{START}">dray</a>\n'
    )
    loaded = [
        f"{path.relative_to(ROOT)}: {found}"
        for path in _texts()
        for found in _LOADED.findall(path.read_text())
    ]
    for line in loaded:
        print(f"{line} would be loaded from elsewhere", file=sys.stderr)
    pages = sum(1 for _ in SITE.rglob("*.html"))
    print(f"{pages} pages: {SITE / 'index.html'}")
    return 1 if loaded else 0


def _texts() -> list[Path]:
    return [*SITE.rglob("*.html"), *SITE.rglob("*.css")]


if __name__ == "__main__":
    raise SystemExit(main())
