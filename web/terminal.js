// Output as it comes, as a terminal would show it: colours, and lines that are written over (progress bars). Only text
// nodes are made. What arrives is drawn once a frame, and what is too much for a page is left out at its beginning.

const KEPT = 512 * 1024; // characters on the page
const COLOURS = ["black", "red", "green", "yellow", "blue", "magenta", "cyan", "white"];
const CONTROL = /(\r\n|\n|\r|\x08|\x1b\[[\d;?]*[ -/]*[@-~]|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)|\x1b.)/; // eslint-disable-line no-control-regex
const INVISIBLE = /[\x00-\x08\x0b-\x1f\x7f]/g; // eslint-disable-line no-control-regex

export class Terminal {
  constructor(pre) {
    this.pre = pre;
    this.clear();
  }

  clear() {
    this.ready = []; // [class, text] of finished lines that are not drawn yet
    this.line = []; // the same of the line that is being written
    this.column = 0;
    this.style = { colour: "", bold: false };
    this.length = 0;
    this.dropped = 0;
    this.last = document.createElement("span");
    this.notice = null;
    this.pre.replaceChildren(this.last);
  }

  get isEmpty() {
    return this.length === 0 && this.ready.length === 0 && this.line.length === 0;
  }

  write(text, stream = "stdout") {
    for (const piece of text.split(CONTROL)) {
      if (piece === "\n" || piece === "\r\n") this.#endLine();
      else if (piece === "\r") this.column = 0;
      else if (piece === "\b") this.column = Math.max(0, this.column - 1);
      else if (piece.startsWith("\x1b[") && piece.endsWith("m")) this.#setStyle(piece.slice(2, -1));
      else if (piece.startsWith("\x1b[") && piece.endsWith("K")) this.line = this.#cut(0, this.column);
      else if (piece && piece[0] !== "\x1b") this.#put(piece.replace(INVISIBLE, ""), stream);
    }
    this.frame ??= requestAnimationFrame(() => this.#draw());
  }

  // Everything at once: when a run is shown again, or has ended.
  flush() {
    if (this.frame) cancelAnimationFrame(this.frame);
    this.#draw();
  }

  #class(stream) {
    return [stream === "stderr" ? "stderr" : "", this.style.colour && `ansi-${this.style.colour}`, this.style.bold && "ansi-bold"]
      .filter(Boolean).join(" ");
  }

  #setStyle(codes) {
    for (const code of codes.split(";").map(Number)) {
      if (code === 0) this.style = { colour: "", bold: false };
      else if (code === 1) this.style.bold = true;
      else if (code === 22) this.style.bold = false;
      else if (code === 39) this.style.colour = "";
      else if ((code >= 30 && code <= 37) || (code >= 90 && code <= 97)) this.style.colour = COLOURS[code % 10];
    }
  }

  #width() {
    return this.line.reduce((sum, [, text]) => sum + text.length, 0);
  }

  #cut(from, until) {
    const kept = [];
    let at = 0;
    for (const [name, text] of this.line) {
      const part = text.slice(Math.max(0, from - at), Math.max(0, until - at));
      if (part) kept.push([name, part]);
      at += text.length;
    }
    return kept;
  }

  #put(text, stream) {
    const name = this.#class(stream);
    const width = this.#width();
    if (this.column >= width) {
      const end = this.line.at(-1);
      if (end?.[0] === name) end[1] += text;
      else this.line.push([name, text]);
    } else {
      this.line = [...this.#cut(0, this.column), [name, text], ...this.#cut(this.column + text.length, width)];
    }
    this.column += text.length;
    if (this.column > 16384) this.#endLine(""); // a line without an end is drawn in pieces
  }

  #endLine(end = "\n") {
    this.ready.push(...this.line, ["", end]);
    this.line = [];
    this.column = 0;
  }

  // What has the same colours at once: piece by piece, a million short lines would take minutes.
  #appendReady() {
    let [name, pieces] = ["", []];
    for (const [next, text] of this.ready) {
      if (next !== name && text !== "\n") {
        if (pieces.length) this.#append(name, pieces.join(""));
        [name, pieces] = [next, []];
      }
      pieces.push(text);
    }
    if (pieces.length) this.#append(name, pieces.join(""));
    this.ready = [];
  }

  #append(name, text) {
    if (!text) return;
    const before = this.last.previousSibling;
    if (before && before !== this.notice && (before.className === name || text === "\n")) before.firstChild.appendData(text);
    else {
      const span = document.createElement("span");
      span.className = name;
      span.append(document.createTextNode(text));
      this.last.before(span);
    }
    this.length += text.length;
  }

  #draw() {
    this.frame = null;
    const scroller = this.pre.closest("[data-follow]") ?? this.pre;
    const follows = scroller.scrollHeight - scroller.scrollTop - scroller.clientHeight < 40;
    this.#appendReady();
    this.last.replaceChildren(...this.line.map(([name, text]) => {
      const span = document.createElement("span");
      span.className = name;
      span.textContent = text;
      return span;
    }));
    if (this.length > KEPT * 1.5) this.#dropBeginning();
    if (follows) scroller.scrollTop = scroller.scrollHeight;
  }

  #dropBeginning() {
    if (!this.notice) {
      this.notice = document.createElement("span");
      this.notice.className = "terminal-notice";
      this.pre.prepend(this.notice);
    }
    while (this.length > KEPT) {
      const first = this.notice.nextSibling;
      const text = first.firstChild;
      const count = Math.min(text.length, this.length - KEPT);
      if (count === text.length) first.remove();
      else text.deleteData(0, count);
      this.length -= count;
      this.dropped += count;
    }
    this.notice.textContent = `… ${this.dropped.toLocaleString("en")} characters before this are not shown\n`;
  }
}
