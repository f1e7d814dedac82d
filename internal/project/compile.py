# Compiles modules that have no bytecode yet, or bytecode that is judged by time: the times in an image are all the same. argv is a
# folder that keeps bytecode by what was compiled, or nothing, and then the folders below which to compile; without any, the
# folders are on standard input, with zero bytes between, and nothing below them is meant.
import hashlib, importlib.util as util, os, sys
from importlib._bootstrap_external import _code_to_hash_pyc

store = sys.argv[1] and os.path.join(sys.argv[1], util.MAGIC_NUMBER.hex())
workers = min(len(os.sched_getaffinity(0)), 8)
untimed = util.MAGIC_NUMBER + (1).to_bytes(4, "little")  # by hash, and never checked


def walks():
    for top in sys.argv[2:]:
        yield from os.walk(top)
    if len(sys.argv) == 2:
        for folder in sys.stdin.read().split("\0"):
            yield folder, [], os.listdir(folder)


def sources():
    for folder, folders, files in walks():
        if "__pycache__" in folders:
            folders.remove("__pycache__")
        for name in files:
            if name.endswith(".py"):
                yield os.path.join(folder, name)


def usable(target):
    try:
        with open(target, "rb") as f:
            return f.read(8) == untimed
    except FileNotFoundError:
        return False


def write(path, data):
    os.makedirs(os.path.dirname(path), exist_ok=True)
    temp = f"{path}.{os.getpid()}"
    with open(temp, "xb") as f:
        f.write(data)
    os.replace(temp, path)


def compiled(path, source):
    code = compile(source, path, "exec", dont_inherit=True)
    return _code_to_hash_pyc(code, util.source_hash(source), False)


def provide(path):
    target = util.cache_from_source(path)
    if os.path.islink(path) or usable(target):
        return
    with open(path, "rb") as f:
        source = f.read()
    if not store:
        write(target, compiled(path, source))
        return
    key = hashlib.sha256(path.encode() + b"\0" + source).hexdigest()
    kept = os.path.join(store, key[:2], key)
    try:
        with open(kept, "rb") as f:
            data = f.read()
    except FileNotFoundError:
        data = compiled(path, source)
        write(kept, data)
    write(target, data)


def work(share):
    for path in share:
        try:
            provide(path)
        except (SyntaxError, ValueError, RecursionError, MemoryError, OverflowError):
            pass  # templates and code for other versions
        except OSError as e:
            print(f"no bytecode for {path}: {e}", file=sys.stderr)


if __name__ == "__main__":
    import warnings

    warnings.simplefilter("ignore")
    found = sorted(sources())
    children = []
    for n in range(1, workers):
        child = os.fork()
        if child == 0:
            work(found[n::workers])
            os._exit(0)
        children.append(child)
    work(found[0::workers])
    for child in children:
        os.waitpid(child, 0)
