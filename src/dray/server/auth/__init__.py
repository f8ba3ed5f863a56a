"""Authentication, authorization, impersonation, and the reviews that answer questions about them."""
