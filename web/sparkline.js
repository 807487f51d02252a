// A small line of the last values.
import { svg } from "./dom.js";

const WIDTH = 240;
const HEIGHT = 44;

function pathOf(values, most) {
  const step = WIDTH / Math.max(1, values.length - 1);
  return values.map((value, at) => `${at ? "L" : "M"}${(at * step).toFixed(1)} ${(HEIGHT - 3 - (value / most) * (HEIGHT - 8)).toFixed(1)}`).join("");
}

export class Sparkline {
  constructor(length = 90) {
    this.length = length;
    this.values = [];
    this.area = svg("path", { class: "spark-area" });
    this.line = svg("path", { class: "spark-line" });
    this.element = svg("svg", { class: "spark", viewBox: `0 0 ${WIDTH} ${HEIGHT}`, preserveAspectRatio: "none", "aria-hidden": "true" }, this.area, this.line);
  }

  add(value) {
    this.values.push(Number.isFinite(value) ? value : 0);
    if (this.values.length > this.length) this.values.shift();
    if (this.values.length < 2) return;
    const path = pathOf(this.values, Math.max(...this.values) * 1.35 || 1);
    this.line.setAttribute("d", path);
    this.area.setAttribute("d", `${path}L${WIDTH} ${HEIGHT}L0 ${HEIGHT}Z`);
  }
}
