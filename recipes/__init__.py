"""Recipes: one TOML per target, their schema, loader, fingerprint and command line."""
