"""What engine, GPU and host did meanwhile."""
