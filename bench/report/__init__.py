"""From records to a report that others can check: build, claims, render, sign, verify."""
