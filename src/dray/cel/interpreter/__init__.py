"""Running a checked tree: the planner makes a program of it that counts its cost, the code generator a plain Python function."""
