import importlib.metadata as m, json, os, platform, sys

root = sys.argv[1]
out = {"python": platform.python_version(), "distributions": [], "caches": []}
for d in m.distributions():
    wheel = d.read_text("WHEEL") or ""
    url = ""
    try:
        url = json.loads(d.read_text("direct_url.json") or "{}").get("url", "")
    except ValueError:
        pass
    out["distributions"].append({
        "name": d.metadata["Name"] or "", "version": d.version or "", "url": url,
        "tags": [l[4:].strip() for l in wheel.splitlines() if l.startswith("Tag:")],
    })
out["distributions"].sort(key=lambda d: d["name"].lower())
try:
    out["caches"] = sorted(os.listdir(os.path.join(root, ".cache")))
except OSError:
    pass
json.dump(out, sys.stdout)
