// Files for the boxes: uploaded once, then lent to runs at /data/input, as many as are ticked.
import * as api from "./api.js";
import { button, find, h, icon, notify } from "./dom.js";
import * as format from "./format.js";

const USED = "cloche-files-used";

// Names of files on the server are one path part.
function safeName(name) {
  return name.replace(/[^\w.\- ]+/g, "_").replace(/^\.+/, "_").slice(0, 200) || "file";
}

export class Files extends EventTarget {
  constructor() {
    super();
    this.items = []; // {name, size, state: ready | sending | failed, progress, used, profile}
    this.missing = false;
  }

  #changed() {
    sessionStorage.setItem(USED, JSON.stringify(this.items.filter((item) => item.used).map((item) => item.name)));
    this.dispatchEvent(new Event("change"));
  }

  #remembered() {
    try {
      return JSON.parse(sessionStorage.getItem(USED) ?? "[]");
    } catch {
      return [];
    }
  }

  async refresh() {
    try {
      const { files = [] } = await api.get("/v1/files");
      const used = this.#remembered();
      const sending = this.items.filter((item) => item.state !== "ready");
      this.items = [...files.map((file) => {
        const known = this.items.find((item) => item.name === file.name && item.sha256 === file.sha256);
        return { ...known, ...file, state: "ready", used: known?.used ?? used.includes(file.name) };
      }), ...sending.filter((item) => !files.some((file) => file.name === item.name))];
      this.missing = false;
    } catch (error) {
      this.missing = error.status === 404 || error.status === 501;
      if (!this.missing && error.status !== 401) notify(api.wordsOf(error), "bad");
    }
    this.#changed();
  }

  async add(list) {
    await Promise.all([...list].map((file) => this.#send(file)));
  }

  async #send(file) {
    const name = safeName(file.name);
    const item = { name, size: file.size, state: "sending", progress: 0, used: true, stopper: new AbortController() };
    this.items = [...this.items.filter((other) => other.name !== name), item];
    this.#changed();
    try {
      const told = await api.upload(`/v1/files/${encodeURIComponent(name)}`, file, (part) => {
        item.progress = part;
        this.dispatchEvent(new CustomEvent("progress", { detail: item }));
      }, item.stopper.signal);
      Object.assign(item, told, { name, state: "ready" });
    } catch (error) {
      item.state = "failed";
      item.used = false;
      if (error.name === "AbortError") this.items = this.items.filter((other) => other !== item);
      else notify(`${name}: ${api.wordsOf(error)}`, "bad");
    }
    this.#changed();
  }

  setUsed(item, used) {
    item.used = used;
    this.#changed();
  }

  async remove(item) {
    if (item.state === "sending") {
      item.stopper.abort();
      return;
    }
    try {
      if (item.state === "ready") await api.remove(`/v1/files/${encodeURIComponent(item.name)}`);
      this.items = this.items.filter((other) => other !== item);
      this.#changed();
    } catch (error) {
      notify(api.wordsOf(error), "bad");
    }
  }

  async profile(item) {
    item.profile ??= await api.get(`/v1/files/${encodeURIComponent(item.name)}/profile`);
    return item.profile;
  }

  // The field of a request.
  request() {
    const used = this.items.filter((item) => item.used && item.state === "ready");
    return used.length ? { files: used.map((item) => ({ name: item.name, upload: item.name })) } : {};
  }
}

// ---- the strip of chips below the editor ----

function chip(files, item, onOpen) {
  const busy = item.state === "sending";
  const box = h("input", { type: "checkbox", "aria-label": `Give ${item.name} to runs`, disabled: item.state !== "ready",
    onchange: (event) => files.setUsed(item, event.target.checked) });
  box.checked = item.used;
  const bar = h("span", { class: "chip-progress" });
  bar.style.width = `${Math.round((item.progress ?? 0) * 100)}%`;
  const element = h("div", { class: `chip ${item.state}${item.used ? " used" : ""}`, dataset: { name: item.name } },
    box,
    h("button", { type: "button", class: "chip-name", title: item.used ? `/data/input/${item.name}` : "Not given to runs: tick it", onclick: () => onOpen(item) },
      h("span", {}, item.name), h("small", {}, busy ? "sending" : item.state === "failed" ? "failed" : format.bytes(item.size))),
    h("button", { type: "button", class: "chip-close", "aria-label": `Remove ${item.name}`, onclick: () => files.remove(item) }, icon("close")),
    busy && bar);
  return element;
}

export function chipStrip(place, files, onOpen) {
  const picker = h("input", { type: "file", multiple: true, hidden: true, onchange: () => {
    files.add(picker.files);
    picker.value = "";
  } });
  const list = h("div", { class: "chips" });
  const add = button("Add files", { kind: "small quiet", symbol: "plus", onclick: () => picker.click() });
  const hint = h("span", { class: "chips-hint" }, "or drop them anywhere");
  place.append(list, add, hint, picker);
  const show = () => {
    list.replaceChildren(...files.items.map((item) => chip(files, item, onOpen)));
    hint.hidden = files.items.length > 0;
    find("span", add).classList.toggle("sr-only", files.items.length > 0);
    place.hidden = files.missing;
  };
  files.addEventListener("change", show);
  files.addEventListener("progress", ({ detail }) => {
    const bar = find(`.chip[data-name="${CSS.escape(detail.name)}"] .chip-progress`, list);
    if (bar) bar.style.width = `${Math.round(detail.progress * 100)}%`;
  });
  show();
}

// Files may be dropped on any part of the page.
export function acceptDrops(files) {
  const veil = find("#drop-veil");
  let depth = 0;
  const carriesFiles = (event) => event.dataTransfer?.types.includes("Files");
  addEventListener("dragenter", (event) => {
    if (!carriesFiles(event)) return;
    depth += 1;
    veil.hidden = false;
  });
  addEventListener("dragleave", (event) => {
    if (!carriesFiles(event)) return;
    depth = Math.max(0, depth - 1);
    veil.hidden = depth === 0;
  });
  addEventListener("dragover", (event) => {
    if (carriesFiles(event)) event.preventDefault();
  });
  addEventListener("drop", (event) => {
    if (!carriesFiles(event)) return;
    event.preventDefault();
    depth = 0;
    veil.hidden = true;
    files.add(event.dataTransfer.files);
  });
}
