"""`just plan`: how many replicas a number of calls needs. What a single run will be is planned in `bench.plan`."""
