"""The images that recipes run from: pinned by digest, built, asked of their registries."""
