"""The installer. It runs on the target host from `install.pyz`, before anything is installed: standard library only."""
