"""`just preflight`: what a recipe will need and give, computed before a GPU is touched."""
