// The page Data: the files on the server, and what is in them.
import * as api from "./api.js";
import { button, find, h, icon } from "./dom.js";
import * as format from "./format.js";
import { Table } from "./table.js";

const NUMERIC = /int|float|number|decimal|real/;

function nullsBar(nulls, rows) {
  const part = rows ? nulls / rows : 0;
  const fill = h("span", { class: "bar-fill nulls" });
  fill.style.width = `${part > 0 ? Math.max(2, part * 100) : 0}%`;
  const percent = part > 0 && part < 0.001 ? "< 0.1 %" : `${Number((part * 100).toFixed(1))} %`;
  return h("div", { class: "nulls-cell" }, h("span", { class: "bar", "aria-hidden": "true" }, fill),
    h("span", {}, nulls ? `${format.number(nulls)} (${percent})` : "none"));
}

function rangeOf(column) {
  if (column.min === undefined || column.min === null) return "";
  const say = (value) => (typeof value === "number" ? format.number(value) : String(value));
  return `${say(column.min)} … ${say(column.max)}`;
}

function columnsTable(profile) {
  return h("div", { class: "table-card" }, h("div", { class: "table-scroll", tabindex: 0, role: "region", "aria-label": "Columns" },
    h("table", { class: "columns-table" },
      h("thead", {}, h("tr", {}, ["Column", "Type", "Missing", "Range"].map((name) => h("th", { scope: "col" }, name)))),
      h("tbody", {}, profile.columns.map((column) => h("tr", {},
        h("th", { scope: "row" }, column.name),
        h("td", {}, h("span", { class: `type type-${NUMERIC.test(column.type) ? "number" : /date|time/.test(column.type) ? "time" : /bool/.test(column.type) ? "bool" : "text"}` }, column.type)),
        h("td", {}, nullsBar(column.nulls ?? 0, profile.rows)),
        h("td", { class: "range" }, rangeOf(column))))))));
}

function facts(profile) {
  const rows = [["Format", profile.format === "unknown" ? "not known; runs get it as it is" : profile.format], ["Rows", profile.rows !== undefined && profile.rows !== null ? format.number(profile.rows) : "–"],
    ["Columns", profile.columns?.length ?? "–"], ["Size", format.bytes(profile.size)]];
  return h("dl", { class: "facts" }, rows.map(([name, value]) => h("div", {}, h("dt", {}, name), h("dd", {}, String(value)))));
}

export class DataPage {
  constructor(files, { onUse }) {
    this.files = files;
    this.onUse = onUse;
    this.list = find("#data-list");
    this.place = find("#data-profile");
    this.sending = new Set();
    files.addEventListener("change", () => this.#draw());
    const picker = h("input", { type: "file", multiple: true, hidden: true, onchange: () => {
      files.add(picker.files);
      picker.value = "";
    } });
    find("#data-add").append(picker);
    find("#data-add").addEventListener("click", (event) => event.target !== picker && picker.click());
  }

  show(name) {
    this.wanted = name ? decodeURIComponent(name) : null;
    this.#draw();
  }

  #draw() {
    const { files } = this;
    const sending = files.items.filter((item) => item.state === "sending").map((item) => item.name);
    this.wanted = sending.find((name) => !this.sending.has(name)) ?? this.wanted; // who adds a file wants to see it
    this.sending = new Set(sending);
    const chosen = files.items.find((item) => item.name === this.wanted) ?? files.items.find((item) => item.state === "ready");
    this.list.replaceChildren(...files.items.map((item) => this.#row(item, item === chosen)));
    find(".data-columns").classList.toggle("empty", !files.items.length);
    if (!chosen) {
      this.shown = null;
      const text = files.missing ? "This server keeps no files." : "Drop a CSV, Parquet or JSON file anywhere on this page to see what is in it, then give it to a run.";
      this.place.replaceChildren(h("div", { class: "output-empty" }, h("strong", {}, "No files yet"), h("span", {}, text)));
    } else if (this.shown !== chosen && !find("#page-data").hidden && chosen.state === "ready") this.#load(chosen);
  }

  #row(item, selected) {
    return h("a", { class: "data-row", href: `#/data/${encodeURIComponent(item.name)}`, "aria-current": selected ? "true" : undefined },
      icon("table"), h("span", { class: "file-name" }, item.name),
      h("small", { class: "muted" }, item.state === "sending" ? "sending …" : item.state === "failed" ? "failed" : format.bytes(item.size)));
  }

  async #load(item) {
    this.shown = item;
    const head = h("div", { class: "profile-head" }, h("h2", {}, item.name),
      h("div", { class: "row" },
        button("Use in a run", { kind: "small primary", onclick: () => this.onUse(item, "run") }),
        button("In a session", { kind: "small", onclick: () => this.onUse(item, "session") }),
        button("", { kind: "small quiet", symbol: "download", label: `Download ${item.name}`, onclick: () => this.#download(item) }),
        button("", { kind: "small quiet", symbol: "close", label: `Remove ${item.name}`, onclick: () => this.files.remove(item) })));
    const body = h("div", { class: "profile-body" }, h("p", { class: "muted loading" }, "Looking at it, in a box of its own …"));
    this.place.replaceChildren(head, body);
    try {
      const profile = await this.files.profile(item);
      if (this.shown !== item) return;
      body.replaceChildren(facts(profile), ...this.#parts(profile));
    } catch (error) {
      body.replaceChildren(h("p", { class: "muted" }, `There is no profile of this file: ${api.wordsOf(error)}`));
    }
  }

  #parts(profile) {
    const parts = [];
    if (profile.columns?.length) parts.push(h("h3", {}, "Columns"), columnsTable(profile));
    if (profile.sample?.length) {
      const columns = profile.columns?.map((column) => column.name) ?? profile.sample[0].map((_, at) => `${at + 1}`);
      // Samples are as they stand in the file: texts, and nothing where nothing is.
      const isNumber = (profile.columns ?? []).map((column) => NUMERIC.test(column.type));
      const rows = profile.sample.map((row) => row.map((cell, at) => (cell === "" ? null : isNumber[at] && !Number.isNaN(Number(cell)) ? Number(cell) : cell)));
      parts.push(h("h3", {}, "First rows"), new Table({ columns, rows, row_count: profile.rows ?? profile.sample.length }).element);
    }
    return parts;
  }

  async #download(item) {
    const address = URL.createObjectURL(await api.blob(`/v1/files/${encodeURIComponent(item.name)}`));
    h("a", { href: address, download: item.name }).click();
    setTimeout(() => URL.revokeObjectURL(address), 10000);
  }
}
