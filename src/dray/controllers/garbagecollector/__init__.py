"""The garbage collector. ``monitors`` keeps the owner ``graph`` up to date, ``deletion`` decides what becomes of an object, and ``collector`` does it. Order and preconditions are upstream's."""
