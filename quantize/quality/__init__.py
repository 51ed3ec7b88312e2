"""What quantization cost: the quantized checkpoint beside its BF16 source, on text that neither was calibrated on.

held-out text -> reference: log-probabilities --+-> pairs, token by token -> quality.json, quality.md
              -> quantized: log-probabilities --+
              -> quantized: load, replies, drafts -----------------------> served.json (gate 8 of `quantize.audit`)
"""
