"""The resource claim controllers for the classic generations: claims allocated by drivers' controllers, and the claims of 1.26 and 1.27 that are named after their pods."""
