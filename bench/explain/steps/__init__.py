"""`just steps`: where the time of a reply goes, from the arrivals of its chunks."""
