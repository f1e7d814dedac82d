const fs = require("fs"), path = require("path");
const root = process.argv[1];
const packages = new Map();
let hidden = {};
const read = (f) => { try { return JSON.parse(fs.readFileSync(f, "utf8")); } catch { return null; } };
const list = (d) => { try { return fs.readdirSync(d, { withFileTypes: true }); } catch { return []; } };

function add(dir) {
  const p = read(path.join(dir, "package.json"));
  if (!p || typeof p.name !== "string" || typeof p.version !== "string") return;
  const at = path.relative(root, dir), lock = hidden[at] || {};
  const s = p.scripts || {}, key = p.name + "@" + p.version;
  if (packages.has(key) && lock.link) return; // pnpm links to what stands elsewhere
  packages.set(key, {
    Name: p.name, Version: p.version, Integrity: lock.integrity || "", Resolved: lock.link ? "file:" + lock.resolved : lock.resolved || "",
    Scripts: !!(lock.hasInstallScript || s.preinstall || s.install || s.postinstall),
    Hollow: path.dirname(at) === "node_modules" || path.basename(path.dirname(at)).startsWith("@") ? hollow(dir, p) : [],
  });
}
// hollow gives the commands that a package declares and does not have.
function hollow(dir, p) {
  const bin = typeof p.bin === "string" ? { [p.name.replace(/^.*\//, "")]: p.bin } : p.bin || {};
  return Object.keys(bin).filter((c) => typeof bin[c] === "string" && !fs.existsSync(path.join(dir, bin[c])));
}
function modules(dir, depth) {
  for (const e of list(dir)) {
    if (e.name === ".bin") continue;
    if (e.isSymbolicLink()) add(path.join(dir, e.name));
    if (!e.isDirectory()) continue;
    const at = path.join(dir, e.name);
    if (e.name === ".pnpm") { for (const s of list(at)) modules(path.join(at, s.name, "node_modules"), depth + 1); continue; }
    const each = e.name.startsWith("@") ? list(at).filter((x) => x.isDirectory() || x.isSymbolicLink()).map((x) => path.join(at, x.name)) : [at];
    for (const m of each) {
      add(m);
      if (depth < 32 && !fs.lstatSync(m).isSymbolicLink()) modules(path.join(m, "node_modules"), depth + 1);
    }
  }
}
hidden = (read(path.join(root, "node_modules", ".package-lock.json")) || {}).packages || {};
modules(path.join(root, "node_modules"), 0);
const out = [...packages.values()].sort((a, b) => (a.Name < b.Name ? -1 : a.Name > b.Name ? 1 : a.Version < b.Version ? -1 : 1));
process.stdout.write(JSON.stringify({ packages: out, caches: list(path.join(root, ".cache")).map((e) => e.name) }));
