"""What an engine's log says went wrong: the stage, the allocation, the cause, the fix for that release.

    bytes (`source`) -> lines (`envelope`) -> starts (`reader`, `start`, `tracebacks`)
    -> diagnosis (`cause`, `diagnose`) -> screen, JSON (`show`, `as_json`)

What failures look like is data: `knowledge/*.toml`, one file per family, schema in `knowledge`. A new failure needs an
entry there and no code.
"""
