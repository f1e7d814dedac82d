"""Stands where pip would be in an environment, whose packages never change: python -m pip runs the command pip beside python."""
import os
import sys

if __name__ == "__main__":
    command = os.path.join(sys.prefix, "bin", "pip")
    os.execv(command, [command, *sys.argv[1:]])
