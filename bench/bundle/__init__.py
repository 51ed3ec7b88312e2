"""The offline bundle: everything that a host without network needs to run a target, with Docker or without.

`make` collects and packs it, `host` is the installer that travels with it, `installed` is what an installed bundle
offers to the run. `left_out.toml` says what is not packed, and why. `image` carries a container image, `cache_*` what
engines have compiled.
"""
