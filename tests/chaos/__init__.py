"""Components that are killed again and again while pods with devices come and go."""
