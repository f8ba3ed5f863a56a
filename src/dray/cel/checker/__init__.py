"""The type checker, and the validators of literals that run after it."""
