"""What the environment of a live server is, and what an installed engine offers to be timed."""
