// What the first filter says of the code, as a list: each finding leads to its place in the editor.
import { h } from "./dom.js";
import * as format from "./format.js";

const RULES = { "built-name": "built name", "dynamic-import": "dynamic import" };

function findingRow(finding, onPlace) {
  const isNote = finding.severity === "note";
  const words = [
    h("span", { class: "finding-place" }, `${finding.line}:${finding.column}`),
    h("span", { class: "finding-text" }, h("strong", {}, finding.message), h("span", {}, finding.advice)),
    h("span", { class: "finding-rule" }, RULES[finding.rule] ?? finding.rule),
  ];
  const title = `${isNote ? "Note" : "Warning"}, line ${finding.line}, column ${finding.column}: ${finding.message}`;
  return h("li", { class: `finding ${isNote ? "note" : "warning"}` },
    onPlace ? h("button", { type: "button", "aria-label": `${title}. Go there`, onclick: () => onPlace(finding) }, words)
      : h("div", { "aria-label": title }, words));
}

// `onPlace` takes a finding, and goes where it is; without it, nothing can be clicked.
export function findingsView(vet, isBlocked, onPlace) {
  const { findings = [], more = 0 } = vet ?? {};
  if (!findings.length) return null;
  const warnings = findings.filter((finding) => finding.severity !== "note").length;
  const counts = [warnings && format.plural(warnings, "warning"), findings.length - warnings && format.plural(findings.length - warnings, "note"),
    more && `${more} more`].filter(Boolean).join(", ");
  return h("section", { class: `findings${isBlocked ? " blocked" : ""}`, "aria-label": "What the first filter found" },
    h("h3", {}, isBlocked ? "Blocked by the first filter" : "The first filter", h("span", { class: "muted" }, counts)),
    h("ul", {}, findings.map((finding) => findingRow(finding, onPlace))));
}
