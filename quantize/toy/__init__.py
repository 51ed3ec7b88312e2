"""The toy checkpoint of the cpu recipes: Qwen3.5-MoE's architecture at a size that fits into the repository."""
