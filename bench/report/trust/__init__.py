"""Who is trusted, for which time, and by which kinds of signature."""
