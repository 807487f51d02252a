// A table of values: sticky head, sorted by a click, numbers to the right. Cells are text nodes.
import { button, h } from "./dom.js";
import { number, plural } from "./format.js";

const FIRST_ROWS = 100;

function cellText(value) {
  if (value === null || value === undefined) return "–";
  if (typeof value === "object") return JSON.stringify(value);
  if (typeof value === "number" && !Number.isInteger(value)) return String(Number(value.toPrecision(8)));
  return String(value);
}

// Times without what every one of them has: midnight, and no seconds' parts.
function shortened(rows, types) {
  const wholeDays = types.map((type, at) => /^datetime/.test(type ?? "") && rows.every((row) => !row[at] || /T00:00:00(\.0+)?$/.test(row[at])));
  return rows.map((row) => row.map((value, at) => {
    if (!/^datetime/.test(types[at] ?? "") || typeof value !== "string") return value;
    return wholeDays[at] ? value.slice(0, 10) : value.replace("T", " ").replace(/\.0+$/, "");
  }));
}

function compare(one, other) {
  if (one === null || one === undefined) return 1;
  if (other === null || other === undefined) return -1;
  if (typeof one === "number" && typeof other === "number") return one - other;
  return String(one).localeCompare(String(other), "en", { numeric: true });
}

export class Table {
  // columns: names; types: one a column, or none; index: labels of the rows, or none.
  constructor({ columns, types = [], index = null, rows, row_count: rowCount = rows.length, column_count: columnCount = columns.length }) {
    this.columns = columns;
    this.types = types;
    this.entries = shortened(rows, types).map((row, at) => ({ row, label: index ? index[at] : null, at }));
    this.hasIndex = Boolean(index);
    this.numeric = columns.map((_, at) => rows.some((row) => typeof row[at] === "number")
      && rows.every((row) => row[at] === null || row[at] === undefined || typeof row[at] === "number"));
    this.shown = FIRST_ROWS;
    this.sorted = { column: -1, down: false };
    this.body = h("tbody");
    this.heads = columns.map((name, at) => this.#head(name, at));
    this.more = button("", { kind: "small quiet", onclick: () => this.#showAll() });
    const cut = [rowCount > rows.length && `first ${number(rows.length)} of ${plural(rowCount, "row")}`,
      rowCount <= rows.length && plural(rowCount, "row"),
      columnCount > columns.length ? `${columns.length} of ${plural(columnCount, "column")}` : plural(columns.length, "column")];
    this.element = h("div", { class: "table-card" },
      h("div", { class: "table-scroll", tabindex: 0, role: "region", "aria-label": "Table" },
        h("table", {}, h("thead", {}, h("tr", {}, this.hasIndex && h("th", { class: "index" }), this.heads)), this.body)),
      h("div", { class: "table-foot" }, h("span", {}, cut.filter(Boolean).join(" · ")), this.more));
    this.#fill();
  }

  #head(name, at) {
    const type = this.types[at];
    return h("th", { scope: "col", class: this.numeric[at] ? "number" : "", "aria-sort": "none" },
      h("button", { type: "button", onclick: () => this.#sort(at), title: "Sort" },
        h("span", {}, Array.isArray(name) ? name.join(" / ") : String(name)), type && h("small", {}, String(type))));
  }

  #sort(column) {
    const down = this.sorted.column === column && !this.sorted.down;
    this.sorted = { column, down };
    const sign = down ? -1 : 1;
    this.entries.sort((one, other) => {
      const [a, b] = [one.row[column], other.row[column]];
      const missing = a === null || a === undefined || b === null || b === undefined;
      return (missing ? 1 : sign) * compare(a, b) || one.at - other.at;
    });
    this.heads.forEach((head, at) => head.setAttribute("aria-sort", at !== column ? "none" : down ? "descending" : "ascending"));
    this.#fill();
  }

  #showAll() {
    this.shown = Infinity;
    this.#fill();
  }

  #fill() {
    this.body.replaceChildren(...this.entries.slice(0, this.shown).map(({ row, label }) => h("tr", {},
      this.hasIndex && h("th", { scope: "row", class: "index" }, cellText(label)),
      this.columns.map((_, at) => h("td", { class: row[at] === null || row[at] === undefined ? "missing" : this.numeric[at] ? "number" : "" },
        cellText(row[at]))))));
    this.more.hidden = this.entries.length <= this.shown;
    this.more.textContent = `Show all ${number(this.entries.length)}`;
  }
}

// The rows of a small CSV text, for previews of files; quotes as RFC 4180 has them.
export function parseCsv(text, separator = ",", most = 200) {
  const rows = [];
  let row = [];
  let field = "";
  let quoted = false;
  const endField = () => {
    row.push(field);
    field = "";
  };
  for (let at = 0; at < text.length && rows.length <= most; at += 1) {
    const letter = text[at];
    if (quoted) {
      if (letter !== '"') field += letter;
      else if (text[at + 1] === '"') {
        field += '"';
        at += 1;
      } else quoted = false;
    } else if (letter === '"' && field === "") quoted = true;
    else if (letter === separator) endField();
    else if (letter === "\n") {
      endField();
      rows.push(row);
      row = [];
    } else if (letter !== "\r") field += letter;
  }
  if ((field || row.length) && rows.length <= most) {
    endField();
    rows.push(row);
  }
  return rows;
}
