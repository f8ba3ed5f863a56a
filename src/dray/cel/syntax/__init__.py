"""Words for what the grammar refuses, to the letter what upstream's generated parser says.

Upstream's parser is made by ANTLR, and its messages ("mismatched input …", "extraneous input …", "no viable
alternative …", sometimes several for one slip) come from ANTLR's prediction and recovery. They are found here the
same way: ``grammar`` is the grammar as a network of states, ``prediction`` decides between alternatives, and
``recovery`` runs over the tokens, reports and recovers. None of this is used for an expression that parses.
"""

from __future__ import annotations

from dray.cel.syntax.recovery import diagnose

__all__ = ["diagnose"]
