"""The tests; `tests.truth` is a server with known timings that the benchmark of the client uses too."""
