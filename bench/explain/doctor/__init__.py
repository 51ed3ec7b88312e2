"""What an engine's log says went wrong: the stage, the allocation, the cause, the fix for that release.

    bytes -> lines (`source`, `envelope`) -> one start after the other (`reader`, `start`) -> diagnosis (`diagnose`) -> screen, JSON

What failures look like is data: `knowledge/*.toml`, one file per family, schema in `knowledge`. A new failure needs an
entry there and no code.
"""
