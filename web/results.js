// What a run shows: values, tables, pictures, pages, and the files that it left.
import * as api from "./api.js";
import { button, h, icon, notify } from "./dom.js";
import * as format from "./format.js";
import { Table, parseCsv } from "./table.js";

const TABLE = "application/vnd.cloche.table+json";
const PICTURES = ["image/png", "image/jpeg", "image/gif", "image/webp", "image/svg+xml"];
const PREVIEW_MOST = 8 << 20;
// Attributes that lead somewhere. Links, too: they would be followed in the frame.
const ADDRESSES = ["src", "srcset", "href", "xlink:href", "action", "formaction", "poster", "background", "data", "ping", "cite"];
// A document of no origin is not its own 'self': the place of the style sheet is named.
const FRAME_POLICY = `default-src 'none'; style-src ${location.origin}; img-src data:`;

// Addresses of Blobs live until the page goes or the next run clears them.
const addresses = new Set();

function addressOf(blob) {
  const address = URL.createObjectURL(blob);
  addresses.add(address);
  return address;
}

export function releaseAddresses() {
  for (const address of addresses) URL.revokeObjectURL(address);
  addresses.clear();
}

function picture(type, content, name) {
  // An <img> runs nothing, not even an SVG's scripts.
  const data = type === "image/svg+xml" ? [content] : [format.fromBase64(content)];
  return pictureOf(new Blob(data, { type }), name);
}

function pictureOf(blob, name) {
  const image = h("img", { src: addressOf(blob), alt: name ?? "Picture made by the run", class: "result-picture" });
  const figure = h("figure", { class: "result-figure" }, image);
  image.addEventListener("click", () => figure.classList.toggle("whole"));
  return figure;
}

// How tall the page in a frame will be: it is a document of no origin, so nobody can ask it.
function heightOf(page) {
  const rows = page.querySelectorAll("tr").length;
  const pictures = page.querySelectorAll("img[src], svg").length;
  const blocks = page.querySelectorAll("p, h1, h2, h3, h4, li, pre, div > br").length;
  const letters = page.textContent.length;
  return Math.min(460, 26 + rows * 30 + pictures * 220 + blocks * 30 + (rows ? 0 : Math.ceil(letters / 90) * 22));
}

// HTML of a guest: a frame with no origin, no scripts, no forms, no way out, and a policy of its own on top of ours. What
// would be refused anyway is taken out, so that the console stays quiet.
export function frameOf(html) {
  const template = document.createElement("template"); // inert: nothing in it is loaded or run
  template.innerHTML = html;
  const page = template.content;
  for (const element of page.querySelectorAll("script, style, link, meta, base, iframe, frame, object, embed")) element.remove();
  for (const element of page.querySelectorAll("*")) {
    for (const { name, value } of [...element.attributes]) {
      const leaves = ADDRESSES.includes(name) && !/^(data:|#)/.test(value);
      if (leaves || name === "style" || name.startsWith("on")) element.removeAttribute(name);
    }
  }
  const theme = document.documentElement.dataset.theme ?? (matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light");
  const frame = h("iframe", { class: "result-frame", sandbox: "", title: "Page made by the run", referrerpolicy: "no-referrer", loading: "eager" });
  frame.style.height = `${heightOf(page)}px`;
  frame.srcdoc = `<!doctype html><html class="${theme}"><head><meta charset="utf-8">`
    + `<meta http-equiv="Content-Security-Policy" content="${FRAME_POLICY}">`
    + `<link rel="stylesheet" href="${new URL("./frame.css", import.meta.url)}"></head><body>${template.innerHTML}</body></html>`;
  return frame;
}

function parsed(value) {
  return typeof value === "string" ? JSON.parse(value) : value;
}

function textOf(value) {
  return typeof value === "string" ? value : JSON.stringify(value, null, 2);
}

function contentOf(media) {
  try {
    if (media[TABLE]) return new Table(parsed(media[TABLE])).element;
    const type = PICTURES.find((known) => media[known]);
    if (type) return picture(type, media[type]);
    if (media["text/html"]) return frameOf(media["text/html"]);
    if (media["application/json"]) return h("pre", { class: "result-text" }, JSON.stringify(parsed(media["application/json"]), null, 2));
  } catch { /* a guest may say anything: then it is shown as text */ }
  const text = media["text/markdown"] ?? media["text/latex"] ?? media["text/plain"] ?? Object.values(media)[0] ?? "";
  return h("pre", { class: "result-text" }, textOf(text));
}

export function resultView({ is_value: isValue, media }) {
  return h("div", { class: `result${isValue ? " value" : ""}` }, contentOf(media ?? {}));
}

export function errorView({ name, value, traceback }) {
  const text = Array.isArray(traceback) ? traceback.join("") : traceback;
  return h("div", { class: "result-error", role: "alert" },
    h("div", { class: "result-error-head" }, h("strong", {}, name ?? "Error"), value ? h("span", {}, String(value)) : null),
    text ? h("pre", {}, String(text)) : null);
}

// ---- files that a run left in /data/output ----

const TEXTS = ["txt", "log", "md", "json", "py", "js", "xml", "yaml", "yml", "toml"];
const TYPES = { png: "image/png", jpg: "image/jpeg", jpeg: "image/jpeg", gif: "image/gif", webp: "image/webp", svg: "image/svg+xml" };

const extensionOf = (name) => name.split(".").pop().toLowerCase();

async function contentOfFile(file, addressFor) {
  if (file.content_base64 !== undefined) return new Blob([format.fromBase64(file.content_base64)]);
  const address = file.url ?? addressFor?.(file);
  if (!address) throw new Error("the server did not keep this file");
  // Only paths of this server: the answer is the server's word, but it names what a guest wrote.
  const { origin, pathname, search } = new URL(address, location.href);
  if (origin !== location.origin) throw new Error("the file is not on this server");
  return api.blob(pathname + search);
}

async function save(file, addressFor) {
  try {
    const link = h("a", { href: addressOf(await contentOfFile(file, addressFor)), download: format.baseName(file.path) });
    link.click();
  } catch (error) {
    notify(api.wordsOf(error), "bad");
  }
}

async function previewOf(file, addressFor) {
  const extension = extensionOf(file.path);
  if (file.size > PREVIEW_MOST) return null;
  if (TYPES[extension]) {
    const blob = await contentOfFile(file, addressFor);
    return pictureOf(new Blob([blob], { type: TYPES[extension] }), file.path);
  }
  if (extension === "csv" || extension === "tsv") {
    const text = await (await contentOfFile(file, addressFor)).text();
    const [columns, ...rows] = parseCsv(text, extension === "tsv" ? "\t" : ",");
    return columns ? new Table({ columns, rows: rows.map((row) => row.map((cell) => (cell !== "" && !Number.isNaN(Number(cell)) ? Number(cell) : cell || null))) }).element : null;
  }
  if (TEXTS.includes(extension)) {
    const text = await (await contentOfFile(file, addressFor)).text();
    return h("pre", { class: "result-text" }, text.slice(0, 20000));
  }
  return null;
}

export function filesView(files, notCollected, addressFor) {
  const rows = files.map((file) => {
    const preview = h("div", { class: "file-preview" });
    previewOf(file, addressFor).then((view) => view && preview.append(view), () => {});
    return h("li", {},
      h("div", { class: "file-row" }, icon("file"), h("span", { class: "file-name", title: file.sha256 && `SHA-256 ${file.sha256}` }, file.path),
        h("span", { class: "muted" }, format.bytes(file.size)),
        button("", { kind: "quiet small", symbol: "download", label: `Download ${file.path}`, onclick: () => save(file, addressFor) })),
      preview);
  });
  const left = (notCollected ?? []).map((file) => h("li", { class: "file-row muted" }, icon("file"),
    h("span", { class: "file-name" }, file.path), h("span", {}, `left out: ${file.reason}`)));
  return h("section", { class: "files-out", "aria-label": "Files made by the run" },
    h("h3", {}, "Files"), h("ul", {}, rows, left));
}
