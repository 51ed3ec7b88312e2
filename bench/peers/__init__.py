"""Other load generators beside ours, each against the same reference server with known timings."""
