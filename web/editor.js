// The editor: a textarea, which brings undo, selection, screen readers and phones' keyboards, over the same text in
// colours. Both grow with the text, so that one element scrolls for them.
import { find, h } from "./dom.js";
import { highlight } from "./highlight.js";

const COMMENT = { python: "# ", bash: "# ", javascript: "// ", typescript: "// ", go: "// ", c: "// " };
const INDENT = { go: "\t", javascript: "  ", typescript: "  ", bash: "  " };
const OPENS_BLOCK = { python: /:\s*(#.*)?$/, bash: /\b(then|do|else)\s*$|\{\s*$/ };

export class Editor {
  constructor(place, { onRun, onChange } = {}) {
    this.language = "python";
    this.onChange = onChange;
    this.gutter = h("div", { class: "editor-gutter", "aria-hidden": "true" });
    this.colours = h("pre", { class: "editor-colours", "aria-hidden": "true" });
    this.area = h("textarea", { class: "editor-area", spellcheck: "false", autocapitalize: "off", autocomplete: "off",
      autocorrect: "off", wrap: "off", "aria-label": "Code", "aria-describedby": "editor-help" });
    place.append(this.gutter, h("div", { class: "editor-text" }, this.colours, this.area));
    this.area.addEventListener("input", () => this.#changed());
    this.area.addEventListener("keydown", (event) => this.#key(event, onRun));
    for (const event of ["keyup", "pointerup", "focus"]) this.area.addEventListener(event, () => this.#markLine());
    this.area.addEventListener("blur", () => this.#markLine(-1));
    this.#draw();
  }

  get value() {
    return this.area.value;
  }

  set value(text) {
    if (text !== this.area.value) this.marks?.clear();
    this.area.value = text;
    this.#draw();
  }

  setLanguage(language) {
    this.language = language;
    this.#draw();
  }

  focus() {
    this.area.focus({ preventScroll: true });
  }

  // Puts the cursor where a reader says that something is: lines and columns count from 1, columns in whole characters.
  goTo(line, column) {
    const lines = this.area.value.split("\n");
    const at = Math.min(line, lines.length) - 1;
    const before = lines.slice(0, at).reduce((sum, text) => sum + text.length + 1, 0);
    const start = before + [...lines[at]].slice(0, column - 1).join("").length;
    this.focus();
    this.area.setSelectionRange(start, before + lines[at].length);
    this.#markLine();
    this.gutter.children[at].scrollIntoView({ block: "nearest" }); // the page too, on a phone
  }

  // Findings in the gutter, until the text is another.
  mark(findings) {
    const graver = (one, other) => (one === "warning" ? one : other);
    this.marks = new Map();
    for (const { line, severity = "warning" } of findings) this.marks.set(line, graver(this.marks.get(line), severity));
    this.#showMarks();
  }

  #showMarks() {
    [...this.gutter.children].forEach((element, at) => {
      const kind = this.marks?.get(at + 1);
      element.classList.toggle("found", kind !== undefined);
      element.classList.toggle("note", kind === "note");
    });
  }

  // Typed text that can be undone; setting the value would forget the history.
  insert(text) {
    this.area.focus({ preventScroll: true });
    if (!document.execCommand("insertText", false, text)) {
      this.area.setRangeText(text, this.area.selectionStart, this.area.selectionEnd, "end");
      this.#changed();
    }
  }

  #changed() {
    this.marks?.clear();
    this.#draw();
    this.onChange?.(this.area.value);
  }

  #draw() {
    const text = this.area.value;
    // The last line needs something on it, or the layer below would be a line shorter.
    this.colours.replaceChildren(highlight(text, this.language), "\n");
    const count = text.split("\n").length;
    if (this.gutter.childElementCount !== count) {
      this.gutter.replaceChildren(...Array.from({ length: count }, (_, at) => h("span", {}, String(at + 1))));
    }
    this.#showMarks();
    this.#markLine();
  }

  #markLine(line) {
    const focused = document.activeElement === this.area;
    const at = line ?? (focused ? this.area.value.slice(0, this.area.selectionStart).split("\n").length - 1 : -1);
    find(".current", this.gutter)?.classList.remove("current");
    this.gutter.children[at]?.classList.add("current");
  }

  #key(event, onRun) {
    if (event.isComposing) return;
    if ((event.ctrlKey || event.metaKey) && event.key === "Enter") {
      event.preventDefault();
      event.stopPropagation();
      onRun?.();
    } else if ((event.ctrlKey || event.metaKey) && event.key === "/") {
      event.preventDefault();
      this.#toggleComment();
    } else if (event.key === "Escape") {
      this.leaving = true; // the next Tab leaves, for those who have only a keyboard
    } else if (event.key === "Tab" && !this.leaving && !event.ctrlKey && !event.altKey) {
      event.preventDefault();
      this.#indent(event.shiftKey);
    } else if (event.key === "Enter" && !event.shiftKey) {
      event.preventDefault();
      this.#newLine();
    }
    if (event.key !== "Escape") this.leaving = false;
  }

  get #unit() {
    return INDENT[this.language] ?? "    ";
  }

  // The lines that the selection touches: [start, end, lines].
  #lines() {
    const { value, selectionStart, selectionEnd } = this.area;
    const start = value.lastIndexOf("\n", selectionStart - 1) + 1;
    const until = selectionEnd > selectionStart && value[selectionEnd - 1] === "\n" ? selectionEnd - 1 : selectionEnd;
    const end = value.indexOf("\n", until) === -1 ? value.length : value.indexOf("\n", until);
    return [start, end, value.slice(start, end).split("\n")];
  }

  #replaceLines(change) {
    const { selectionStart, selectionEnd } = this.area;
    const [start, end, lines] = this.#lines();
    const changed = change(lines);
    const first = changed[0].length - lines[0].length;
    const text = changed.join("\n");
    const grown = text.length - (end - start);
    if (!grown && text === lines.join("\n")) return;
    this.area.setSelectionRange(start, end);
    this.insert(text);
    this.area.setSelectionRange(Math.max(start, selectionStart + first), Math.max(start, selectionEnd + grown));
    this.#markLine();
  }

  #indent(back) {
    const { selectionStart, selectionEnd, value } = this.area;
    const unit = this.#unit;
    if (back) {
      const step = new RegExp(`^(\\t| {1,${unit === "\t" ? 4 : unit.length}})`);
      this.#replaceLines((lines) => lines.map((line) => line.replace(step, "")));
    } else if (value.slice(selectionStart, selectionEnd).includes("\n")) {
      this.#replaceLines((lines) => lines.map((line) => (line ? unit + line : line)));
    } else {
      const column = selectionStart - value.lastIndexOf("\n", selectionStart - 1) - 1;
      this.insert(unit === "\t" ? unit : " ".repeat(unit.length - (column % unit.length)));
    }
  }

  #newLine() {
    const { value, selectionStart } = this.area;
    const line = value.slice(value.lastIndexOf("\n", selectionStart - 1) + 1, selectionStart);
    const opens = (OPENS_BLOCK[this.language] ?? /[{([]\s*$/).test(line);
    this.insert(`\n${/^[ \t]*/.exec(line)[0]}${opens ? this.#unit : ""}`);
  }

  #toggleComment() {
    const mark = COMMENT[this.language];
    const bare = mark.trim();
    this.#replaceLines((lines) => {
      const used = lines.filter((line) => line.trim());
      const commented = used.length > 0 && used.every((line) => line.trimStart().startsWith(bare));
      return lines.map((line) => {
        if (!line.trim()) return line;
        const at = line.length - line.trimStart().length;
        if (!commented) return line.slice(0, at) + mark + line.slice(at);
        const rest = line.slice(at + bare.length);
        return line.slice(0, at) + (rest.startsWith(" ") ? rest.slice(1) : rest);
      });
    });
  }
}
