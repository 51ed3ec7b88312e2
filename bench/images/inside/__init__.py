"""What runs inside an image while it is built, and its health check: the standard library of Python 3.11 and no more.

The Dockerfile mounts these files and runs `assemble` once, so that an image of ours is one layer on its base.
"""
