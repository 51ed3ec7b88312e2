"""What callers say: agents, prefixes, turns, seeds. Pure."""
