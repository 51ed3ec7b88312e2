"""The toy checkpoint of the cpu recipes: Qwen3.5-MoE's architecture at a size that fits into the repository.

How `checkpoint/` is made. Its PROVENANCE.json names the commit of `bench/workload` that gives the same corpus again:

    python -m quantize.toy.prepare --out CORPUS               in the client's environment
    python -m quantize.toy.train --corpus CORPUS --out DIR    where torch and transformers are
"""
