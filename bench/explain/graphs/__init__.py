"""`just graphs`: which CUDA graphs a run replayed, and which list would have served it better."""
