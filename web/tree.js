// The history as a tree: rows in the order of time, and beside them a line for each branch.
import { h, svg } from "./dom.js";
import * as format from "./format.js";

const ROW = 46;
const LANE = 16;
const COLOURS = 6;

function firstLine(code) {
  const line = code.split("\n").find((text) => text.trim() && !/^\s*(#|\/\/)/.test(text)) ?? code.trim().split("\n")[0];
  return line.trim() || "(empty)";
}

// Rows: every step; and the ends of branches in which nothing was run yet.
function rowsOf(session) {
  const rows = session.steps.map((step) => ({ step, branch: session.branchOf(step), lane: step.branch, parent: step.parent, time: step.at }));
  for (const branch of session.branches) {
    if (!session.hasSteps(branch) && branch.live) rows.push({ step: session.step(branch.origin), branch, lane: branch.id, parent: branch.origin, waiting: true });
  }
  return rows;
}

// Lanes are numbers of branches; those that no row uses any more would leave gaps.
function packLanes(rows) {
  const used = [...new Set(rows.map((row) => row.lane))].sort((one, other) => one - other);
  for (const row of rows) row.column = used.indexOf(row.lane);
  return used.length;
}

function edge(from, to) {
  const [x1, y1] = [from.column * LANE + 14, from.at * ROW + ROW / 2];
  const [x2, y2] = [to.column * LANE + 14, to.at * ROW + ROW / 2];
  const bend = Math.min(y1 + ROW, y2);
  const path = x1 === x2 ? `M${x1} ${y1}V${y2}` : `M${x1} ${y1}C${x1} ${bend - 10} ${x2} ${y1 + 14} ${x2} ${bend}V${y2}`;
  return svg("path", { d: path, class: `edge lane-${to.lane % COLOURS}${to.step.left && !to.waiting ? " left" : ""}` });
}

function dot(row, selected) {
  const [x, y] = [row.column * LANE + 14, row.at * ROW + ROW / 2];
  const state = row.waiting ? "waiting" : row.step.state;
  const kind = `node lane-${row.lane % COLOURS} ${state}${row.step.left && !row.waiting ? " left" : ""}`;
  return svg("g", {}, selected && svg("circle", { cx: x, cy: y, r: 8.5, class: `halo lane-${row.lane % COLOURS}` }),
    svg("circle", { cx: x, cy: y, r: 4.5, class: kind }));
}

function drawGraph(rows, lanes, isSelected) {
  const width = lanes * LANE + 14;
  const graph = svg("svg", { class: "tree-graph", width, height: rows.length * ROW, "aria-hidden": "true" });
  const byStep = new Map(rows.filter((row) => !row.waiting).map((row) => [row.step.id, row]));
  for (const row of rows) if (row.parent !== null && byStep.has(row.parent)) graph.append(edge(byStep.get(row.parent), row));
  for (const row of rows) graph.append(dot(row, isSelected(row)));
  return graph;
}

function titleOf(row) {
  if (row.waiting) return row.step.id === 0 ? "Back at the start" : `From step ${row.step.id}`;
  return row.step.state === "start" ? "Start" : firstLine(row.step.code);
}

function metaOf(row) {
  if (row.waiting) return row.branch.replayed ? "steps run again · nothing new yet" : "nothing run here yet";
  const { step } = row;
  if (step.state === "start") return format.ago(step.at);
  if (step.state === "running") return "running";
  const took = step.record.result?.duration_ms ?? step.record.result?.usage?.wall_ms;
  const how = step.left ? "left behind" : step.record.result?.cause === "cancelled" ? "interrupted" : step.state === "error" ? (step.record.result?.error?.name ?? "failed") : null;
  return [`step ${step.id}`, took !== undefined && format.milliseconds(took), how].filter(Boolean).join(" · ");
}

export class TreeView {
  constructor(place, session, { onSelect, onKey }) {
    this.place = place;
    this.session = session;
    this.onSelect = onSelect;
    place.addEventListener("keydown", (event) => this.#key(event, onKey));
  }

  draw(marked = null) {
    const { session } = this;
    const hadFocus = this.place.contains(document.activeElement);
    const rows = rowsOf(session);
    rows.forEach((row, at) => {
      row.at = at;
    });
    const lanes = packLanes(rows);
    const waitingChosen = rows.some((row) => row.waiting && row.branch.id === session.current && row.step.id === session.selected);
    const isSelected = (row) => row.step.id === session.selected && (row.waiting ? row.branch.id === session.current : !waitingChosen);
    this.rows = rows;
    this.items = rows.map((row) => this.#item(row, isSelected(row), lanes, marked));
    this.place.replaceChildren(...(rows.length ? [drawGraph(rows, lanes, isSelected), ...this.items] : []));
    this.at = rows.findIndex(isSelected);
    if (hadFocus) this.items[this.at]?.focus({ preventScroll: true });
    this.items[this.at]?.scrollIntoView({ block: "nearest" });
  }

  #item(row, selected, lanes, marked) {
    const { session } = this;
    const isEnd = row.branch.live && row.branch.head === row.step.id && (row.waiting || row.step.branch === row.branch.id);
    const depth = session.pathTo(row.step).length + (row.waiting ? 1 : 0);
    const item = h("div", { class: `tree-row${row.step.left && !row.waiting ? " left" : ""}${marked === row.step.id && !row.waiting ? " marked" : ""}`,
      role: "treeitem", "aria-level": depth, "aria-selected": String(selected), tabindex: selected ? 0 : -1, dataset: { step: row.step.id, branch: row.branch.id },
      onclick: () => this.onSelect(row.step, row.waiting ? row.branch : null) },
    h("div", { class: "tree-title" }, h("span", { class: row.waiting || row.step.state === "start" ? "" : "code" }, titleOf(row)),
      isEnd && h("span", { class: `tag lane-${row.lane % COLOURS}` }, row.branch.name)),
    h("div", { class: "tree-meta" }, metaOf(row)));
    item.style.paddingLeft = `${lanes * LANE + 18}px`;
    return item;
  }

  #key(event, onKey) {
    const moves = { ArrowDown: 1, ArrowUp: -1, Home: -Infinity, End: Infinity };
    if (event.key in moves) {
      event.preventDefault();
      const at = Math.max(0, Math.min(this.rows.length - 1, this.at + moves[event.key]));
      const row = this.rows[at];
      this.onSelect(row.step, row.waiting ? row.branch : null);
      this.items[this.at]?.focus();
    } else if (!event.ctrlKey && !event.metaKey && !event.altKey) onKey(event);
  }
}
