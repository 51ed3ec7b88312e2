"""Who answers: a process of ours or somebody's server; readiness, log events, counters."""
