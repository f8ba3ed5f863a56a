"""The search for devices: first fit, then backtracking over candidates with bounds, on a state that can be undone."""
