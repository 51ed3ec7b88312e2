#!/bin/sh
# Installs the bundle that lies beside this file. Needs sh, xz and the python3 that the bundle was made for.
# Help: sh install.sh --help
set -eu
case $0 in */*) here=${0%/*} ;; *) here=. ;; esac

python=python3
if [ "${1-}" = --python ]; then
    if [ $# -lt 2 ]; then
        echo "error: --python needs the path of an interpreter" >&2
        exit 2
    fi
    python=$2
    shift 2
fi
if ! command -v "$python" >/dev/null 2>&1; then
    echo "error: there is no $python" >&2
    echo "  do: name the Python to use: sh install.sh --python /path/to/python3" >&2
    exit 1
fi
# The installer itself cannot be read by an older Python; which version exactly is needed, it says itself.
if ! "$python" -E -c 'import sys; sys.exit(sys.version_info < (3, 11))'; then
    echo "error: $python is too old: $("$python" -E -c 'import sys; print(sys.version.split()[0])')" >&2
    echo "  do: name a newer Python: sh install.sh --python /path/to/python3" >&2
    exit 1
fi
if [ ! -f "$here/install.pyz" ]; then
    echo "error: install.pyz is missing from $here" >&2
    echo "  do: copy this file too: a bundle is installed whole" >&2
    exit 1
fi
exec "$python" -E "$here/install.pyz" "$@"
