"""How callers say it: streams, arrivals, clock, HTTP client; the outcome is request records."""
