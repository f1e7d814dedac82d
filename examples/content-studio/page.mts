// Makes page.html of figures.md, in the working directory.
import { readFile, writeFile } from "node:fs/promises";
import { marked } from "marked";

const text: string = await readFile("figures.md", "utf8");
const title: string = text.split("\n", 1)[0]?.replace(/^#\s*/, "") ?? "Figures";
const body: string = await marked.parse(text);
await writeFile("page.html", `<!doctype html>\n<meta charset="utf-8">\n<title>${title}</title>\n${body}`);
console.log(`page.html: ${title}`);
