# Runs once inside the finished root, in a container. What it prints is read as name=version.

if command -v update-ca-certificates >/dev/null 2>&1; then
    update-ca-certificates --fresh >/dev/null 2>&1
fi

# The image gives every file one time, so compiled modules that are checked by time would all count as stale, and each
# python would compile what it imports, every time. These are checked by nothing.
if command -v python3 >/dev/null 2>&1; then
    python3 -I -c '
import compileall, os, py_compile, sys
for folder in sorted({os.path.realpath(p) for p in [*sys.path, "/usr/share/python3"] if os.path.isdir(p)}):
    compileall.compile_dir(folder, quiet=2, force=True, invalidation_mode=py_compile.PycInvalidationMode.UNCHECKED_HASH)
' >/dev/null 2>&1
fi

first() { "$@" 2>/dev/null </dev/null | head -n 1; }
echo "python=$(first python3 --version)"
echo "node=$(first node --version)"
echo "npm=$(first npm --version)"
echo "uv=$(first uv --version)"
echo "mise=$(first mise --version)"
echo "git=$(first git --version)"
