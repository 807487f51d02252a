"use strict";
// Rich values: what a notebook would show, as pairs of media type and bytes.
const { inspect } = require("util");

const TEXT_MAX = 1 << 20;
// Whose source is what people read where nothing draws it.
const READABLE = new Set(["text/markdown", "text/latex", "application/json"]);

let show = () => {};

// `take(kind, bundle)` sends a bundle to the host.
function connect(take) {
  show = take;
}

// Data with a media type. `data` may be text, bytes or, for JSON, anything.
class Shown {
  constructor(data) {
    if (data === undefined) throw new TypeError(`${this.constructor.name} needs data`);
    Object.defineProperty(this, "data", { value: data }); // not enumerable: inspect shows the name only
  }

  get kind() {
    return this.constructor.kind;
  }
}

class HTML extends Shown {
  static kind = "text/html";
}

class Markdown extends Shown {
  static kind = "text/markdown";
}

class SVG extends Shown {
  static kind = "image/svg+xml";
}

class Latex extends Shown {
  static kind = "text/latex";
}

class JSONData extends Shown {
  static kind = "application/json";
}
Object.defineProperty(JSONData, "name", { value: "JSON" });

// PNG or JPEG, by its first bytes.
class Image extends Shown {
  get kind() {
    return this.data[0] === 0xff && this.data[1] === 0xd8 ? "image/jpeg" : "image/png";
  }
}

function asBytes(kind, data) {
  if (ArrayBuffer.isView(data)) return Buffer.from(data.buffer, data.byteOffset, data.byteLength);
  if (kind.endsWith("json")) return Buffer.from(JSON.stringify(data) ?? "null");
  return Buffer.from(String(data), /^image\/(png|jpeg)$/.test(kind) ? "base64" : "utf8");
}

function plainText(value) {
  let text;
  try {
    text = inspect(value, { depth: 4 });
  } catch (error) { // its own affair: the run has succeeded
    text = `<a value that cannot be shown: ${error}>`;
  }
  return text.length > TEXT_MAX ? `${text.slice(0, TEXT_MAX)} … (${text.length - TEXT_MAX} more characters)` : text;
}

// Only of what is data: a Map, an Error or a Promise would become {}.
function isData(value) {
  if (typeof value !== "object" || value === null) return false;
  const prototype = Object.getPrototypeOf(value);
  return Array.isArray(value) || prototype === null || prototype === Object.prototype || typeof value.toJSON === "function";
}

// All ways in which the value can be shown, text/plain first.
function bundle(value) {
  const found = new Map([["text/plain", Buffer.from(plainText(value))]]);
  try {
    if (value instanceof Shown) {
      const content = asBytes(value.kind, value.data);
      if (READABLE.has(value.kind)) found.set("text/plain", content);
      found.set(value.kind, content);
    } else if (isData(value)) {
      const text = JSON.stringify(value);
      if (text !== undefined && text.length <= TEXT_MAX) found.set("application/json", Buffer.from(text));
    }
  } catch {
    // a ring, a BigInt, a toJSON() that throws: the text is left
  }
  return found;
}

// Shows a value richly, at once; the value of the last expression is shown by itself. With `mime` the value is the
// content of that type.
function display(value, { mime } = {}) {
  const shown = bundle(value);
  if (mime !== undefined) {
    if (typeof mime !== "string" || !/^[\x21-\x7e]+\/[\x21-\x7e]+$/.test(mime) || mime.length > 127)
      throw new TypeError("display: mime must be a media type, as 'text/html'");
    shown.set(mime, asBytes(mime, value));
  }
  show("display", shown);
}

// Tells whoever waits for this run how far it is: a fraction from 0 to 1 (null: unknown), and a few words.
function makeProgress(report) {
  return (fraction = null, text = "") => {
    if (fraction !== null) {
      fraction = Number(fraction);
      if (Number.isNaN(fraction)) throw new RangeError("progress: the fraction is not a number");
      fraction = Math.min(1, Math.max(0, fraction));
    }
    report(fraction, String(text).slice(0, 500));
  };
}

module.exports = { bundle, connect, display, makeProgress, kinds: { HTML, Markdown, SVG, Latex, JSON: JSONData, Image } };
