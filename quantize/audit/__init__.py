"""Audits an NVFP4 checkpoint folder of ModelOpt's layout, whoever made it: eight gates, to the byte."""
