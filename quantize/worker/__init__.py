"""What runs in the quantizer's environment, with torch and ModelOpt. Nothing of the client is imported here."""
