"""cel-go's ext/bindings: ``cel.bind(name, value, expression)``."""

from __future__ import annotations

from typing import Final

from dray.cel.common.decls import Library
from dray.cel.parser import macros

BINDINGS: Final = Library(name="cel.lib.ext.cel.bindings", macros=macros.BINDINGS)
