"""The documents that the product answers to: what they say, statement by statement, and the test that shows it."""
