"""The stages of `just quantize`, one file each; `quantize.pipeline` runs them in one direction."""
