"""The offline bundle: everything that a host without network and without Docker needs to run a target.

`make` collects and packs it, `host` is the installer that travels with it, `installed` is what an installed bundle
offers to the run. `left_out.toml` says what is not packed, and why.
"""
