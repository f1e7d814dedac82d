# Removes files below the folder in argv: those that standard input names, with zero bytes between. Folders that this leaves empty
# go as well.
import os, sys

root = sys.argv[1]
folders = set()
for path in sys.stdin.read().split("\0"):
    os.unlink(os.path.join(root, path))
    folders.add(os.path.dirname(path))
while folders:
    deepest = max(folders, key=len)
    folders.remove(deepest)
    try:
        os.rmdir(os.path.join(root, deepest))
    except OSError:
        continue  # something is left in it
    folders.add(os.path.dirname(deepest))
