"""The Job controller: it creates pods, tracks those that finish, and ends the Job by its policies."""
