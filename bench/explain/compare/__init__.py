"""`just compare`: what differs between reports, what came of it, and whether a release may go out."""
