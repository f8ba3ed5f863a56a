"""Explanations and findings as text and as SARIF."""
