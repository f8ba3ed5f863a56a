"""Input that nobody would send in good faith, from a seed: for every reader of bytes and texts that come from others."""
