"""How many streams hold a limit: `just capacity`."""
