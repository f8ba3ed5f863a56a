"""Where things are: the repository, its examples, the tools and the recorded answers of upstream."""

from __future__ import annotations

import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
EXAMPLES = ROOT / "examples"
SEEDS = EXAMPLES / "seeds"
HANDS_ON = SEEDS / "hands-on"
DOCS = ROOT / "docs"
GALLERY = DOCS / "gallery"
TOOLS = ROOT / ".tools" / "bin"
CONFORMANCE = ROOT.parent / "shared" / "conformance"
DRAY = str(Path(sys.executable).parent / "dray")
