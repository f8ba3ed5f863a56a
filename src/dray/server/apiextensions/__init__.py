"""Custom resources: they are served and cleaned up as their definitions come and go."""
