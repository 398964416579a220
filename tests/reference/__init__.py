"""Slow, plain models of what aiocann and its examples should compute."""
