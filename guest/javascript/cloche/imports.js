"use strict";
// import in code that is no module.
//
// Runs are evaluated as scripts, for which node has no loader: import() would fail, and a static import is a syntax
// error. Both are rewritten to a call of ours, without moving any other line or, for import(), any column. Exact
// parsing is left to V8: it says where a static import stands.
const { createRequire, isBuiltin, builtinModules } = require("module");
const path = require("path");
const { pathToFileURL } = require("url");

const LOADER = "$mport"; // as long as "import"
const BEFORE_REGEX = new Set(["return", "typeof", "case", "in", "of", "delete", "void", "throw", "new", "do", "else",
  "instanceof", "yield", "await"]);
const TOKEN = /\s+|\/\/[^\n]*|\/\*[^]*?(?:\*\/|$)|[\p{L}\p{N}_$]+|'(?:\\[^]|[^'\\\n])*'?|"(?:\\[^]|[^"\\\n])*"?|[^]/uy;
const REGEX = /\/(?:\\.|\[(?:\\.|[^\]\\\n])*\]|[^/\\\n[])+\/[\p{L}]*/uy;
const TEMPLATE = /(?:\\[^]|\$(?!\{)|[^`\\$])*(?:`|\$\{)?/uy;

function matchAt(pattern, source, at) {
  pattern.lastIndex = at;
  return pattern.exec(source)?.[0] ?? "";
}

// Whether a slash begins a regular expression, by the token before it. After ) and } it may be either; there
// it is taken for a division, which is wrong only for a statement that begins with one.
function isRegexAfter(token) {
  return !token || BEFORE_REGEX.has(token) || !/[\p{L}\p{N}_$)\]}'"`]$/u.test(token);
}

// Brackets behind the word, but not those of a method of that name.
function isCall(rest) {
  return /^(?:\s|\/\*[^]*?\*\/|\/\/[^\n]*\n)*\(/.test(rest) && !/^\s*\([^()]*\)\s*\{/.test(rest);
}

// Places of the word import that are calls.
function dynamicImports(source) {
  const found = [];
  const templates = []; // depth of braces at which each open template goes on
  let depth = 0;
  let last = "";
  for (let at = 0; at < source.length;) {
    let token = matchAt(TOKEN, source, at);
    if (token === "/" && isRegexAfter(last)) token = matchAt(REGEX, source, at) || token;
    if (token === "`" || (token === "}" && templates.at(-1) === depth)) {
      if (token === "}") templates.pop();
      token += matchAt(TEMPLATE, source, at + 1);
      if (token.endsWith("${")) templates.push(depth);
    } else if (token === "{") {
      depth++;
    } else if (token === "}") {
      depth--;
    } else if (token === "import" && last !== "." && isCall(source.slice(at + token.length))) {
      found.push(at);
    }
    at += token.length || 1;
    if (!/^(?:\s|\/\/|\/\*)/.test(token)) last = token;
  }
  return found;
}

function rewriteDynamic(source) {
  if (!/\bimport\b/.test(source)) return source;
  for (const at of dynamicImports(source)) source = source.slice(0, at) + LOADER + source.slice(at + LOADER.length);
  return source;
}

function names(list) {
  return list.split(",").map((name) => name.trim()).filter(Boolean).map((name) => name.replace(/\s+as\s+/, ": ")).join(", ");
}

const STATIC = /^import\s*(?:([^'"()]+?)\s*\bfrom\b\s*)?('[^'\n]+'|"[^"\n]+")(?:\s*(?:with|assert)\s*(\{[^}]*\}))?[^\S\n]*;?/;

// The source with the static import at that place made dynamic, or null where that is beyond us.
function rewriteStatic(source, line, column) {
  let at = 0;
  for (let i = 0; i < line; i++) at = source.indexOf("\n", at) + 1;
  at += column;
  const match = STATIC.exec(source.slice(at));
  if (!match) return null;
  const [text, clause, from, attributes] = match;
  const call = `await ${LOADER}(${from}${attributes ? `, { with: ${attributes} }` : ""})`;
  const parts = /^(?:([\p{L}_$][\p{L}\p{N}_$]*)\s*,?\s*)?(?:\*\s*as\s+([\p{L}_$][\p{L}\p{N}_$]*)|\{([^}]*)\})?$/u.exec(clause ?? "");
  if (!parts) return null;
  const [, byDefault, whole, some] = parts;
  const taken = [byDefault && `default: ${byDefault}`, some && names(some)].filter(Boolean).join(", ");
  let made = call;
  if (whole) made = `const ${whole} = ${call}` + (taken ? `, { ${taken} } = ${whole}` : "");
  else if (clause) made = `const { ${taken} } = ${call}`;
  const lines = "\n".repeat(text.split("\n").length - 1);
  return `${source.slice(0, at)}${made};${lines}${source.slice(at + text.length)}`;
}

function requireFrom(folder) {
  return createRequire(path.join(folder, "run.js"));
}

// What import() in a run means: names are looked up from the working directory.
async function load(specifier, options) {
  specifier = String(specifier);
  let target = specifier;
  const bare = isBuiltin ? isBuiltin(specifier) : builtinModules.includes(specifier.replace(/^node:/, ""));
  if (/^\.{0,2}\//.test(specifier)) {
    target = pathToFileURL(path.resolve(specifier)).href;
  } else if (!bare && !/^\w+:/.test(specifier)) {
    try {
      target = pathToFileURL(requireFrom(process.cwd()).resolve(specifier)).href;
    } catch {
      // a package for import only, or none: node says it better
    }
  }
  const given = options?.with && Number(process.versions.node.split(".")[0]) < 20 ? { assert: options.with } : options;
  return given ? import(target, given) : import(target);
}

module.exports = { LOADER, load, requireFrom, rewriteDynamic, rewriteStatic };
