"""Checkpoints: how each one that a recipe serves came to be."""
