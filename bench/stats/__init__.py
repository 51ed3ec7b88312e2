"""Quantiles, certificates, steady state, bootstrap. Pure, each formula with its source."""
