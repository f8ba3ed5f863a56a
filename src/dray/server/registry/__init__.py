"""What is served and how objects of it are created, updated and written to the store."""
