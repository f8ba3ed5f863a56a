"""What expressions cost: the static estimate, and the price of calls at run time."""
