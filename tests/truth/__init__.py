"""The reference server: an OpenAI-compatible server whose timings and contents are scripted, and known."""
