# Prints what is installed, as JSON. argv is the project's folder; standard input names the distributions that are known already,
# one in a line: of those it only says that they are there. It is run without site, so that no code of a package runs with it.
import json, os, sys
from glob import glob

root = sys.argv[1]
known = set(sys.stdin.read().splitlines())
site = glob(os.path.join(root, ".venv/lib/python3*/site-packages"))[0]
out = {
    "python": sys.version.split()[0].rstrip("+"), "tag": sys.implementation.cache_tag, "site": os.path.relpath(site, root),
    "known": [], "distributions": [], "caches": [],
}
for name in sorted(os.listdir(site)):
    if name in known:
        out["known"].append(name)
    elif name.endswith((".dist-info", ".egg-info")):
        from importlib.metadata import Distribution

        d = Distribution.at(os.path.join(site, name))
        wheel = d.read_text("WHEEL") or ""
        url = ""
        try:
            url = json.loads(d.read_text("direct_url.json") or "{}").get("url", "")
        except ValueError:
            pass
        out["distributions"].append({
            "info": name, "name": d.metadata["Name"] or "", "version": d.version or "", "url": url,
            "tags": [l[4:].strip() for l in wheel.splitlines() if l.startswith("Tag:")],
        })
try:
    out["caches"] = sorted(os.listdir(os.path.join(root, ".cache")))
except OSError:
    pass
json.dump(out, sys.stdout)
