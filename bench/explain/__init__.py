"""What recipes and runs mean: plans before a run, causes after it."""
