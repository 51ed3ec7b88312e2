"""A limit that replies are held against, as the command line writes it."""
