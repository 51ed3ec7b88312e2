"""The benchmark: workload, load, engine, observations, statistics, report."""
