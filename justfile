# streamproof: how many voice streams does a recipe hold under its latency limit? Each recipe here is one line that
# calls a module; `just --list` groups them, and every command explains itself with --help.

set positional-arguments

export PATH := justfile_directory() / ".tools/bin:" + env("PATH")
python := "uv run --frozen --no-dev python -m bench"
maintainer := "uv run --frozen --no-dev --extra release python -m bench"
# Compiled once, however often the tests start a command: they start hundreds.
dev := "PYTHONDONTWRITEBYTECODE= uv run --frozen"

[private]
default:
    @just --list --unsorted

# Run a target end to end: engine, ladder of streams, verdicts, signed report (just repro cpu)
[group("measure")]
[no-exit-message]
repro target *options:
    @{{ python }} repro "$@"

# Complete the report of a run that was cut off (killed client, full disk)
[group("measure")]
[no-exit-message]
finish folder *options:
    @{{ python }} finish "$@"

# Everything that a host without network needs to run a target, with Docker or without (just bundle h200-fp8-dummy)
[group("measure")]
[no-exit-message]
bundle target *options:
    @{{ python }} bundle "$@"

# A target for a cluster: Kubernetes manifests, a Slurm script, a SkyPilot task (just deploy h200-fp8 --as slurm)
[group("measure")]
[no-exit-message]
deploy target *options:
    @{{ python }} deploy "$@"

# Make the NVFP4 checkpoint of a target, audited and signed (just quantize; just quantize tiny; just quantize audit DIR)
[group("checkpoints")]
[no-exit-message]
quantize *options:
    @{{ python }} quantize "$@"

# Build a target's image: pinned base, packages by hash, reproducible (just build cpu, just build --list)
[group("images")]
[no-exit-message]
build *options:
    @{{ python }} build "$@"

# Ask registries and package indexes again what is pinned: image digests, locks (just pin --check)
[group("images")]
[no-exit-message]
pin *options:
    @{{ python }} pin "$@"

# What engines have compiled, for a warm start: list it, export, import, prune
[group("measure")]
[no-exit-message]
caches *options:
    @{{ python }} caches "$@"

# Check a report, from a folder, a ZIP or an address: signature, digests, then every figure again from the raw records
[group("reports")]
[no-exit-message]
verify report *options:
    @{{ python }} verify "$@"

# Your key and whom this checkout trusts: list, new, rotate, add, revoke
[group("reports")]
[no-exit-message]
keys *options:
    @{{ python }} keys "$@"

# All reports of a folder in a browser: filters, verification, comparison; on this machine only (just serve-reports)
[group("reports")]
[no-exit-message]
serve-reports *options:
    @{{ python }} serve-reports "$@"

# A release's notes about reports, and the assets beside them: ZIP files, picture, hashes (just release-notes reports/...)
[group("reports")]
[no-exit-message]
release-notes *options:
    @{{ python }} release-notes "$@"

# Attach reports to a release on GitHub: assets and notes, checked, nothing twice (just attach v1.0 reports/...)
[group("reports")]
[no-exit-message]
attach *options:
    @{{ maintainer }} attach "$@"

# What a vLLM log shows: the stage that failed, the cause, the fix, and silent downgrades (just doctor engine.log)
[group("explain")]
[no-exit-message]
doctor *logs:
    @{{ python }} doctor "$@"

# Before a GPU is touched: memory, cache blocks, CUDA graphs, prefix hits, floors; what fits and which flag to change
[group("explain")]
[no-exit-message]
preflight target *options:
    @{{ python }} preflight "$@"

# Which CUDA graphs a run replayed, padded, never used, and the capture list that its steps needed
[group("explain")]
[no-exit-message]
graphs report *options:
    @{{ python }} graphs "$@"

# Where the time of a reply goes: first token, long and short gaps between chunks, standstills; no profiler, no GPU
[group("explain")]
[no-exit-message]
steps report *options:
    @{{ python }} steps "$@"

# The most streams that hold a latency limit, certified on both sides (just capacity cpu --slo e2e:p95:1s)
[group("explain")]
[no-exit-message]
capacity target *options:
    @{{ python }} capacity "$@"

# Over which values of an assumption the claims hold (just frontier b200-nvfp4 --vary load.turn_gap.mean_s=2..16)
[group("explain")]
[no-exit-message]
frontier target *options:
    @{{ python }} frontier "$@"

# What differs between reports and what came of it, with intervals; a release gate (just compare A B --gate e2e:p95:+5%)
[group("explain")]
[no-exit-message]
compare *reports:
    @{{ python }} compare "$@"

# What each factor between two recipes brings, added first and removed last (just ablate h200-fp8 --from vanilla)
[group("explain")]
[no-exit-message]
ablate *options:
    @{{ python }} ablate "$@"

# How many replicas and GPUs so many calls need, from a measured report (just plan --streams 5000 --from reports/...)
[group("explain")]
[no-exit-message]
plan *options:
    @{{ python }} plan "$@"

# List the targets
[group("recipes")]
[no-exit-message]
recipes *options:
    @{{ python }} recipes "$@"

# A target's resolved recipe, with sources, fingerprint and the exact vllm serve command line
[group("recipes")]
[no-exit-message]
show target *options:
    @{{ python }} show "$@"

# One conversation of a target's workload, as people would read it
[group("recipes")]
[no-exit-message]
workload target *options:
    @{{ python }} workload "$@"

# Our client beside vllm bench serve, GuideLLM, AIPerf and inference-perf, against a server with known timings
[group("develop")]
[no-exit-message]
bench-self *options:
    @{{ python }}.peers "$@"

# How long an honest report of a million requests takes to verify, and in how much memory; 3 when over 10 s or 1 GB
[group("develop")]
[no-exit-message]
bench-verify *options:
    @{{ dev }} python -m tests.report.million "$@"

# Everything that CI runs: lint, types, the tests on two workers (-n 0: on none), the main job on the real engine included
[group("develop")]
[no-exit-message]
test *options: lint format types
    @{{ dev }} pytest -m "not thorough" -n 2 --dist loadfile "$@"

# The same and more of the real engine: the toy checkpoint, the offline bundle, the process engine by itself
[group("develop")]
[no-exit-message]
test-thorough *options: lint format types
    @{{ dev }} pytest "$@"

# The tests that need no engine
[group("develop")]
[no-exit-message]
test-fast *options:
    @{{ dev }} pytest -m "not engine" "$@"

# Rules of style
[group("develop")]
[no-exit-message]
lint:
    @{{ dev }} ruff check .

# Layout of the code
[group("develop")]
[no-exit-message]
format *options="--check .":
    @{{ dev }} ruff format {{ options }}

# Types
[group("develop")]
[no-exit-message]
types:
    @{{ dev }} mypy
