"""What runs in the quantizer's environment: torch, transformers and ModelOpt. Nothing of the client is imported here."""
