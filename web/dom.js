// Elements without markup: what comes from a guest is only ever a text node or a property.

const SVG = "http://www.w3.org/2000/svg";

function fill(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes ?? {})) {
    if (value === undefined || value === null || value === false) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (name === "dataset") Object.assign(element.dataset, value);
    else if (value === true) element.setAttribute(name, "");
    else element.setAttribute(name, String(value));
  }
  element.append(...children.flat().filter((child) => child !== null && child !== undefined && child !== false));
  return element;
}

export function h(tag, attributes, ...children) {
  return fill(document.createElement(tag), attributes, children);
}

export function svg(tag, attributes, ...children) {
  return fill(document.createElementNS(SVG, tag), attributes, children);
}

export const find = (selector, within = document) => within.querySelector(selector);
export const findAll = (selector, within = document) => [...within.querySelectorAll(selector)];

const ICONS = {
  play: "M7 4.5v15l12-7.5z",
  stop: "M6.5 6.5h11v11h-11z",
  plus: "M12 5v14M5 12h14",
  close: "M6 6l12 12M18 6L6 18",
  file: "M7 3h7l4 4v14H7zM14 3v4h4",
  download: "M12 4v11m0 0l-4.5-4.5M12 15l4.5-4.5M5 20h14",
  fork: "M7 4v16M7 13c0-4 10-2 10-7M14.5 8L17 5.5 19.5 8",
  back: "M9 7L4.5 11.5 9 16M5 11.5h9a5 5 0 0 1 0 10h-2",
  compare: "M4 5h6v14H4zM14 5h6v14h-6z",
  copy: "M9 9h11v11H9zM5 15H4V4h11v1",
  table: "M4 5h16v14H4zM4 10h16M10 5v14",
  chevron: "M8 10l4 4 4-4",
  key: "M14 10a4 4 0 1 0-3.5 4L13 16.5h2.5V19H18v-3l-4-4z",
};

export function icon(name) {
  const filled = name === "play" || name === "stop";
  return svg("svg", { class: filled ? "icon filled" : "icon", viewBox: "0 0 24 24", "aria-hidden": "true" },
    svg("path", { d: ICONS[name] }));
}

export function button(text, { kind = "", symbol, label, onclick, ...rest } = {}) {
  return h("button", { type: "button", class: `button ${kind}`.trim(), "aria-label": label, title: label, onclick, ...rest },
    symbol && icon(symbol), text && h("span", {}, text));
}

// A sentence for everybody: shown for a moment, and read out.
export function notify(text, tone = "plain") {
  const place = find("#notices");
  const note = h("div", { class: `notice ${tone}` }, h("span", {}, text),
    h("button", { type: "button", class: "notice-close", "aria-label": "Dismiss", onclick: () => note.remove() }, icon("close")));
  place.append(note);
  while (place.children.length > 3) place.firstChild.remove();
  setTimeout(() => note.remove(), tone === "bad" ? 12000 : 5000);
}
