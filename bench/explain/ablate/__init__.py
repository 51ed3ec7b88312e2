"""`just ablate`: from one recipe to another, one factor at a time, in both directions."""
