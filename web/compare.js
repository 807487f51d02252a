// Two steps side by side, from where their ways part.
import { button, h } from "./dom.js";
import { highlight } from "./highlight.js";
import { OutputView } from "./output.js";

function labelOf(session, step) {
  const branch = session.branchOf(step).name;
  if (step.state === "start") return "Start";
  const line = step.code.trim().split("\n").find((text) => text.trim() && !text.startsWith("#")) ?? "";
  return `Step ${step.id} · ${branch} · ${line.slice(0, 36)}`;
}

function stepView(session, step) {
  const output = h("div", { class: "compare-output" });
  const code = h("pre", { class: "code-block" }, highlight(step.code.trimEnd(), session.language));
  new OutputView(output).show(step.record, session.ceilings);
  return h("article", { class: "compare-step" }, h("h4", {}, `Step ${step.id}`), code, output);
}

function summaryOf(session, one, other) {
  const shared = session.lastShared(one, other);
  const where = shared.state === "start" ? "They part at the start" : `They part after step ${shared.id}`;
  const same = one !== other && one.record.text === other.record.text;
  return { shared, text: one === other ? "Choose another step on one side." : same ? `${where}. The last outputs are the same.` : `${where}.` };
}

export class CompareView {
  constructor(place, session, onClose) {
    this.place = place;
    this.session = session;
    this.selects = [0, 1].map((side) => h("select", { "aria-label": side ? "Second step" : "First step",
      onchange: (event) => {
        this.sides[side] = this.session.step(Number(event.target.value));
        this.#draw();
      } }));
    this.summary = h("p", { class: "muted", role: "status" });
    this.columns = h("div", { class: "compare-columns", tabindex: -1 });
    place.append(h("div", { class: "pane-head" }, h("h2", {}, "Compare"), this.summary,
      h("div", { class: "row push" }, button("Close", { kind: "small", symbol: "close", onclick: onClose }))), this.columns);
  }

  open(one, other) {
    this.sides = [one, other];
    this.#draw();
    this.columns.focus({ preventScroll: true });
  }

  #draw() {
    const { session, sides } = this;
    const { shared, text } = summaryOf(session, ...sides);
    this.summary.textContent = text;
    const choices = session.steps.filter((step) => step.state !== "running" && step.state !== "start");
    this.columns.replaceChildren(...sides.map((side, at) => {
      this.selects[at].replaceChildren(...choices.map((step) => {
        const option = h("option", { value: step.id }, labelOf(session, step));
        option.selected = step === side;
        return option;
      }));
      const own = session.pathTo(side).filter((step) => step.id > shared.id && session.pathTo(shared).indexOf(step) < 0);
      return h("div", { class: "compare-column" },
        h("div", { class: "compare-head" }, h("span", { class: `lane-dot lane-${side.branch % 6}` }), h("label", { class: "select" }, this.selects[at])),
        (own.length ? own : [side]).filter((step) => step.state !== "start").map((step) => stepView(session, step)));
    }));
  }
}
