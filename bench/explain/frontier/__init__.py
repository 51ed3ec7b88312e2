"""Over which values of an assumption a claim holds: `just frontier`."""
