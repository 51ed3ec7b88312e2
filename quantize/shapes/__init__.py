"""Full-size shapes without the weights of anybody: configurations, and random weights made on the spot."""
