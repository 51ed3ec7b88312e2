"""`just serve-reports`: all reports of a folder in a browser, read-only, each verified by this server itself."""
