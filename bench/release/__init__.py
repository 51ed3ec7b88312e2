"""Reports beside a release: notes and assets, and how they get to GitHub."""
