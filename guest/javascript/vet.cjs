"use strict";
// The first filter: what a program would do, told from its syntax before a line of it runs.
//
//     node vet.cjs < (one line of JSON: the order, then the code)        a report on stdout, as JSON
//
// Theory of operation. The parser is acorn, which every node carries for its own use; V8 shows nobody its trees. A spare
// evaluates this file when its order asks for it, and calls look(). The same rules as guest/python/cloche/vet.py, for
// another language; and as little of a boundary: docs/vet.md says what gets past.
const Module = require("module");

const CODE_MAX = 512 << 10; // larger code is not looked at, and says so
const NESTING_MAX = 200;
const FINDINGS_MAX = 50;
const NAMES_MAX = 100;
const PACKAGED_PARSER = "/usr/share/nodejs/acorn/dist/acorn.js"; // of distributions that take it out of node

const TOPICS = {
  network: ["needs the network, which a box does not have", "give the data as an input file, which is read from /data/input"],
  processes: ["starts other programs", "do it in JavaScript itself: fs, path and zlib need no program"],
  execution: ["runs code that is not there to be read", "write the code itself, or a function for each case"],
  memory: ["reaches the engine past the language", "use plain JavaScript"],
};
const NOT_ALLOWED = ["is not allowed here", "the operator's policy names it: do it in another way"];
const PROTOTYPE_ADVICE = "use the object's own methods; no ordinary program needs this";

const MODULES = {
  network: "net dgram tls http https http2 dns dns/promises axios node-fetch undici got ws request superagent socket.io " +
    "socket.io-client puppeteer playwright",
  processes: "child_process cluster shelljs execa node-pty",
  execution: "vm repl",
  memory: "inspector inspector/promises ffi-napi",
};
const CALLS = {
  execution: "eval Function AsyncFunction GeneratorFunction process.getBuiltinModule",
  memory: "process.binding process._linkedBinding process.dlopen process.mainModule module.constructor",
  processes: "process.kill process.execve",
  network: "fetch WebSocket EventSource XMLHttpRequest",
};
const PROTOTYPES = new Set(["__proto__", "__defineGetter__", "__defineSetter__", "__lookupGetter__", "__lookupSetter__", "prepareStackTrace"]);
const ROOTS = new Set(["globalThis", "global", "process", "require", "module", "Reflect"]);
const TIMERS = new Set(["setTimeout", "setInterval", "setImmediate"]);
const PURE = new Set("assert buffer crypto events path querystring string_decoder url util punycode timers stream".split(" "));
const FILES = new Set(["fs", "fs/promises", "sqlite"]);
const PROCESSES = new Set(["child_process", "cluster", "worker_threads"]);
const URLS = /\b(?:https?|wss?|ftp):\/\/([A-Za-z0-9.-]{1,253})/g;

function byName(table) {
  return new Map(Object.entries(table).flatMap(([topic, names]) => names.split(" ").map((name) => [name, topic])));
}

function loadParser() {
  const source = process.binding("natives")["internal/deps/acorn/acorn/dist/acorn"];
  if (!source) return require(PACKAGED_PARSER);
  const module = { exports: {} };
  new Function("exports", "module", "require", source)(module.exports, module, require);
  return module.exports;
}

// Code is a script (CommonJS), or else a module.
function parse(text) {
  const { parse: acorn } = loadParser();
  const options = { ecmaVersion: "latest", locations: true, allowHashBang: true };
  try {
    return acorn(text, { ...options, sourceType: "script", allowReturnOutsideFunction: true });
  } catch (asScript) {
    if (!(asScript instanceof SyntaxError)) throw asScript;
    try {
      return acorn(text, { ...options, sourceType: "module", allowAwaitOutsideFunction: true });
    } catch (asModule) {
      throw /^'import'|^'export'/.test(asScript.message) ? asModule : asScript;
    }
  }
}

function literal(node) {
  if (node?.type === "Literal" && typeof node.value === "string") return node.value;
  return node?.type === "TemplateLiteral" && !node.expressions.length ? node.quasis[0].value.cooked : undefined;
}

function plain(name) {
  return name.replace(/^node:/, "");
}

// lodash/fp is in lodash, @scope/name/file in @scope/name.
function packageOf(name) {
  return name.split("/").slice(0, name.startsWith("@") ? 2 : 1).join("/");
}

// The names that a function, or the program, gives itself; those of its blocks are taken for its own, too.
class Scope {
  constructor(above) {
    this.above = above;
    this.names = new Set();
  }

  has(name) {
    return this.names.has(name) || Boolean(this.above?.has(name));
  }

  // A name, or a pattern of them.
  take(pattern) {
    if (pattern?.type === "Identifier") this.names.add(pattern.name);
    const parts = [pattern?.left, pattern?.argument, ...(pattern?.elements ?? []),
      ...(pattern?.properties ?? []).map((property) => property.value ?? property)];
    if (pattern && pattern.type !== "Identifier") for (const part of parts) if (part) this.take(part);
  }
}

// The scope that a node's parts are in; what it names is taken into the right one.
function scopeOf(node, around) {
  if (node.type === "FunctionDeclaration" || node.type === "ClassDeclaration") around.take(node.id);
  else if (node.type === "VariableDeclarator") around.take(node.id);
  else if (node.type === "CatchClause") around.take(node.param);
  if (!/Function/.test(node.type)) return around;
  const own = new Scope(around);
  for (const parameter of node.params ?? []) own.take(parameter);
  return own;
}

class Reader {
  constructor(order) {
    this.modules = byName(MODULES);
    this.calls = byName(CALLS);
    for (const name of order.allow_modules ?? [])
      for (const own of [...this.modules.keys()]) if (own === plain(name) || own.startsWith(`${plain(name)}/`)) this.modules.delete(own);
    for (const name of order.allow_calls ?? []) this.calls.delete(name);
    for (const name of order.block_modules ?? []) this.modules.set(plain(name), undefined);
    for (const name of order.block_calls ?? []) this.calls.set(name, undefined);
    this.only = new Set((order.only_modules ?? []).map(plain));
    this.findings = new Map();
    this.aliases = new Map();
    this.imports = new Set();
    this.places = new Map(); // of packages that may be missing
    this.hosts = new Set();
    this.uses = new Set();
    this.references = [];
    this.depth = 0;
    this.engine = order.engine;
  }

  add(node, rule, message, advice, severity = "warning") {
    const { line, column } = node.loc?.start ?? node;
    const finding = { line, column: column + 1, rule, message: message.slice(0, 250), advice: advice.slice(0, 250), severity };
    this.findings.set(JSON.stringify(finding), finding);
  }

  walk(tree) {
    const stack = [[tree, undefined, undefined, 0, false, new Scope()]];
    while (stack.length) {
      const [node, parent, key, depth, isGuarded, around] = stack.pop();
      this.depth = Math.max(this.depth, depth);
      const scope = scopeOf(node, around);
      this.visit(node, parent, key, isGuarded, scope);
      for (const field in node) {
        const below = node[field];
        const guards = isGuarded || (node.type === "TryStatement" && field === "block" && !!node.handler);
        if (Array.isArray(below)) {
          for (const item of below) if (item?.type) stack.push([item, node, field, depth + 1, guards, scope]);
        } else if (below?.type && field !== "loc") {
          stack.push([below, node, field, depth + 1, guards, scope]);
        }
      }
    }
    for (const [node, parent, key, scope] of this.references) this.apply(node, parent, key, scope);
  }

  visit(node, parent, key, isGuarded, scope) {
    switch (node.type) {
      case "ImportDeclaration":
      case "ExportNamedDeclaration":
      case "ExportAllDeclaration":
        if (node.source) this.takeModule(node, literal(node.source), isGuarded);
        for (const one of node.type === "ImportDeclaration" ? node.specifiers : [])
          this.aliases.set(one.local.name, one.type === "ImportSpecifier"
            ? `${plain(node.source.value)}.${one.imported.name ?? one.imported.value}` : plain(node.source.value));
        break;
      case "ImportExpression":
        this.takeDynamic(node, node.source, "import()", isGuarded);
        break;
      case "CallExpression":
        if (node.callee.type === "Identifier" && node.callee.name === "require")
          this.takeDynamic(node, node.arguments[0], "require", isGuarded);
        this.references.push([node, parent, key, scope]);
        break;
      case "VariableDeclarator":
        this.takeDeclaration(node);
        break;
      case "Literal":
      case "TemplateElement": {
        const text = node.type === "Literal" ? node.value : node.value.cooked;
        if (typeof text === "string") for (const [, host] of text.matchAll(URLS)) this.hosts.add(host);
        break;
      }
      case "Identifier":
      case "MemberExpression":
      case "NewExpression":
        this.references.push([node, parent, key, scope]);
    }
  }

  takeModule(node, given, isGuarded) {
    const name = plain(given);
    if (!name || /^[./]/.test(name) || /^(?:data|file):/.test(name)) return;
    this.imports.add(name);
    const owner = [name, packageOf(name)].find((one) => this.modules.has(one));
    if (owner !== undefined) {
      const [what, advice] = TOPICS[this.modules.get(owner)] ?? NOT_ALLOWED;
      this.add(node, "module", `${name} ${what}`, advice);
    } else if (this.only.size && !this.only.has(name) && !this.only.has(packageOf(name))) {
      this.add(node, "module", `${name} is not allowed here`, "use a module that the operator's policy allows");
    }
    if (!isGuarded) this.places.set(name, node.loc.start);
  }

  takeDynamic(node, argument, what, isGuarded) {
    const name = literal(argument);
    if (name !== undefined) this.takeModule(node, name, isGuarded);
    else this.add(node, "dynamic-import", `${what} with a name that is made at run time`, "import each module by its name");
  }

  // const fs = require("fs"), { rmSync } = require("fs")
  takeDeclaration({ id, init }) {
    const name = init && this.dotted(init);
    if (!name) return;
    if (id.type === "Identifier" && init.type === "CallExpression") this.aliases.set(id.name, name);
    for (const property of id.type === "ObjectPattern" ? id.properties : []) {
      const target = property.value?.left ?? property.value;
      if (target?.type === "Identifier") this.aliases.set(target.name, `${name}.${property.key.name ?? property.key.value}`);
    }
  }

  // What an expression stands for, as far as it can be told: process.binding.
  dotted(node) {
    if (node.type === "Identifier") return this.aliases.get(node.name) ?? node.name;
    if (node.type === "ChainExpression") return this.dotted(node.expression);
    if (node.type === "CallExpression" && node.callee.type === "Identifier" && node.callee.name === "require") {
      const name = literal(node.arguments[0]);
      return name && plain(name);
    }
    if (node.type !== "MemberExpression") return undefined;
    const below = this.dotted(node.object);
    const name = propertyName(node);
    if (below === undefined || name === undefined) return undefined;
    return below === "globalThis" || below === "global" ? name : `${below}.${name}`;
  }

  apply(node, parent, key, scope) {
    if (node.type === "CallExpression" || node.type === "NewExpression") this.applyToCall(node);
    else if (node.type === "MemberExpression") this.applyToMember(node, parent, key);
    else if (isReference(parent, key) && (this.aliases.has(node.name) || !scope.has(node.name))) this.applyToName(node, parent, key);
  }

  foundCall(node, name) {
    const [what, advice] = TOPICS[this.calls.get(name)] ?? NOT_ALLOWED;
    if (this.calls.get(name) === "network") this.uses.add(name);
    this.add(node, "call", `${name} ${what}`, advice);
  }

  applyToName(node, parent, key) {
    const name = this.dotted(node);
    if (this.calls.has(name)) this.foundCall(node, name);
    else if (name === "require" && !(parent?.type === "CallExpression" && key === "callee") && parent?.type !== "MemberExpression")
      this.add(node, "dynamic-import", "require is handed on, so that nobody can tell what it imports", "import each module by its name");
  }

  applyToMember(node, parent, key) {
    const name = this.dotted(node), own = propertyName(node);
    if (name !== undefined && this.calls.has(name)) {
      this.foundCall(node, name);
    } else if (own !== undefined && PROTOTYPES.has(own)) {
      this.add(node.property, "attribute", `${own} changes what other code relies on`, PROTOTYPE_ADVICE);
    } else if (own === "constructor" && ((parent?.type === "MemberExpression" && key === "object" && propertyName(parent) === "constructor")
      || (parent?.type === "CallExpression" && key === "callee") || node.computed)) {
      this.add(node.property, "attribute", "constructor of a constructor makes code from text", PROTOTYPE_ADVICE);
    } else if (own === undefined && node.object.type === "Identifier" && ROOTS.has(node.object.name)) {
      this.add(node, "built-name", `${node.object.name}[…] with a name that is made at run time`, "write the property's name");
    }
  }

  applyToCall(node) {
    const name = this.dotted(node.callee);
    const [first] = node.arguments;
    if (TIMERS.has(name) && literal(first) !== undefined)
      this.add(node, "call", `${name} of a text ${TOPICS.execution[0]}`, "give it a function");
    else if ((name === "Reflect.get" || name === "Reflect.apply" || name === "Reflect.construct") && ROOTS.has(first?.name))
      this.add(node, "built-name", `${name} of ${first.name}`, "write the property's name");
  }

  facts(path) {
    const imports = [...this.imports];
    const network = [...imports.filter((name) => MODULES.network.split(" ").includes(name)), ...this.uses, ...this.hosts];
    const processes = imports.filter((name) => PROCESSES.has(name));
    const files = imports.filter((name) => FILES.has(name));
    const isPure = !network.length && !processes.length && !files.length && !this.findings.size && imports.every((name) => PURE.has(name));
    const require = Module.createRequire(path);
    const isWasm = this.engine === "wasm"; // which has the language, and no modules at all
    const missing = [...new Set(imports.map(packageOf))].filter((name) => isWasm || isMissing(require, name));
    const [where, advice] = isWasm ? ["JavaScript for the engine wasm does not have", "write it without modules, or use another engine"]
      : ["is not in the image", "use a package that the image has, or an image that has this one"];
    for (const [name, place] of this.places)
      if (missing.includes(packageOf(name)))
        this.add(place, "missing", `needs package ${packageOf(name)}, which ${where}`, advice, "note");
    const few = (list) => list.slice(0, NAMES_MAX).map((name) => name.slice(0, 250));
    return { imports: few(imports), missing: few(missing), network: few(network), processes, files, pure: isPure };
  }
}

// ---- what it needs, for those who choose where it runs

// Names that every JavaScript here has, node's and that of the engine wasm; of some, these parts only.
const EVERYWHERE = new Set(("AggregateError Array ArrayBuffer BigInt BigInt64Array BigUint64Array Boolean DataView Date Error EvalError " +
  "FinalizationRegistry Float32Array Float64Array Infinity Int16Array Int32Array Int8Array JSON Map Math NaN Number Object Promise Proxy " +
  "RangeError ReferenceError Reflect RegExp Set String Symbol SyntaxError TypeError URIError Uint16Array Uint32Array Uint8Array " +
  "Uint8ClampedArray WeakMap WeakRef WeakSet arguments atob btoa clearImmediate clearInterval clearTimeout decodeURI decodeURIComponent " +
  "encodeURI encodeURIComponent escape isFinite isNaN parseFloat parseInt queueMicrotask setImmediate setInterval setTimeout undefined " +
  "unescape").split(" "));
const PARTS = { console: "log info debug error warn assert", performance: "now",
  process: "argv env exit exitCode nextTick stdout stderr", "process.stdout": "write", "process.stderr": "write" };
const NODES_OWN = new Set("toLocaleString toLocaleDateString toLocaleTimeString localeCompare unref hasRef".split(" "));
const WITH_EFFECT = new Set(["process", "global", "globalThis", "module", "WebAssembly"]); // beyond these parts
const TURNS_MAX = 10000; // of all loops multiplied: what any engine does at once
const TURNING = new Set("map forEach filter reduce reduceRight some every find findIndex findLast findLastIndex flatMap".split(" "));

function numberOf(node) {
  return node?.type === "Literal" && typeof node.value === "number" ? node.value : undefined;
}

// How often a loop over this turns, where it is written out; undefined: it is not.
function turnsOf(node) {
  if (node.type === "ArrayExpression") return node.elements.some((item) => item?.type === "SpreadElement") ? undefined : node.elements.length;
  if (node.type === "ObjectExpression") return node.properties.some((item) => item.type === "SpreadElement") ? undefined : node.properties.length;
  if (node.type === "CallExpression" && node.callee.type === "MemberExpression" && TURNING.has(propertyName(node.callee))) return turnsOf(node.callee.object);
  return literal(node)?.length;
}

// for (let i = 0; i < 10; i++)
function turnsOfFor({ init, test, update }) {
  const [counter] = init?.type === "VariableDeclaration" ? init.declarations : [];
  const [from, to] = [numberOf(counter?.init), numberOf(test?.right)];
  const name = counter?.id.name;
  const steps = update?.type === "UpdateExpression" ? 1 : /^[+-]=$/.test(update?.operator) ? numberOf(update.right) : undefined;
  const counts = test?.left?.name === name && (update?.argument ?? update?.left)?.name === name;
  const isUp = /^\+/.test(update?.operator), goesThere = isUp ? /^<=?$/.test(test?.operator) : /^>=?$/.test(test?.operator);
  if (from === undefined || to === undefined || !(steps > 0) || !counts || !goesThere) return undefined;
  return Math.max(0, Math.ceil(Math.abs(to - from) / steps) + 1);
}

// What not every engine has, and whether the work is bounded by what is written: `beyond` and `computes` of the facts.
class Needs {
  constructor(reader) {
    this.reader = reader;
    this.declared = new Set();
    this.functions = new Map(); // name: nodes
    this.beyond = new Set();
    this.turns = 1;
    this.computes = "";
  }

  read(tree) {
    const nodes = [...below(tree)];
    for (const [node, parent] of nodes) this.takeDeclared(node, parent);
    for (const [node, parent, key] of nodes) {
      this.takeName(node, parent, key);
      this.takeWork(node);
    }
    if (!this.computes && this.callsItself()) this.computes = "a function that calls itself";
    if (!this.computes && this.turns > TURNS_MAX) this.computes = `loops of more than ${TURNS_MAX} turns`;
  }

  declare(pattern) {
    if (!pattern) return;
    if (pattern.type === "Identifier") this.declared.add(pattern.name);
    for (const part of [...(pattern.properties ?? []), ...(pattern.elements ?? []), pattern.argument, pattern.left])
      if (part) this.declare(part.type === "Property" ? part.value : part);
  }

  takeDeclared(node, parent) {
    if (/Function/.test(node.type)) {
      node.params.forEach((one) => this.declare(one));
      const name = node.id?.name ?? parent?.id?.name ?? parent?.key?.name ?? parent?.left?.name;
      if (name) this.functions.set(name, [...(this.functions.get(name) ?? []), node]);
    }
    if (/^(?:Function|Class|VariableDeclarator)/.test(node.type)) this.declare(node.id);
    else if (node.type === "CatchClause") this.declare(node.param);
    else if (node.type === "AssignmentExpression" && node.left.type === "Identifier") this.declare(node.left);
    else if (/^Import.*Specifier$/.test(node.type)) this.declare(node.local);
    else if (/^(?:Export|MetaProperty)/.test(node.type)) this.beyond.add(node.type === "MetaProperty" ? `${node.meta.name}.${node.property.name}` : "export");
  }

  takeName(node, parent, key) {
    if (node.type === "MemberExpression") {
      const own = propertyName(node), whole = this.reader.dotted(node) ?? "";
      const owner = Object.keys(PARTS).find((one) => whole === `${one}.${own}`);
      if (NODES_OWN.has(own)) this.beyond.add(own);
      else if (owner && !this.declared.has(owner.split(".")[0]) && !PARTS[owner].split(" ").includes(own)) this.beyond.add(whole);
    } else if (node.type === "Identifier" && isReference(parent, key) && parent.type !== "MetaProperty" && !this.declared.has(node.name) && !EVERYWHERE.has(node.name)) {
      const isPart = node.name in PARTS && parent.type === "MemberExpression" && key === "object" && propertyName(parent) !== undefined;
      if (!isPart) this.beyond.add(node.name);
    }
  }

  takeWork(node) {
    const name = node.type === "CallExpression" && node.callee.type === "MemberExpression" && propertyName(node.callee);
    if (node.type === "ForStatement") this.takeTurns(node, turnsOfFor(node));
    else if (node.type === "ForOfStatement" || node.type === "ForInStatement") this.takeTurns(node, turnsOf(node.right));
    else if (/WhileStatement$/.test(node.type)) this.mayCompute(node, "a while loop");
    else if (TURNING.has(name)) this.takeTurns(node, turnsOf(node.callee.object));
    else if (node.type === "Literal" && (typeof node.value === "number" || typeof node.value === "bigint") && node.value > TURNS_MAX) this.mayCompute(node, "a large number");
  }

  takeTurns(node, turns) {
    if (turns === undefined) this.mayCompute(node, "a loop");
    else this.turns = Math.min(this.turns * Math.max(turns, 1), TURNS_MAX + 1);
  }

  mayCompute(node, what) {
    this.computes ||= `${what} in line ${node.loc.start.line}`;
  }

  callsItself() {
    const calls = new Map();
    for (const [name, nodes] of this.functions)
      calls.set(name, new Set(nodes.flatMap((one) => [...below(one.body)]).map(([node]) => node.name).filter((one) => this.functions.has(one))));
    for (const start of calls.keys()) {
      const waiting = [start], seen = new Set();
      while (waiting.length)
        for (const name of calls.get(waiting.pop())) {
          if (name === start) return true;
          if (!seen.has(name)) waiting.push(name);
          seen.add(name);
        }
    }
    return false;
  }
}

// A node and all that is in it, in the order of the text: [node, parent, key].
function* below(tree) {
  const stack = [[tree]];
  while (stack.length) {
    const [node, parent, key] = stack.pop(), parts = [];
    yield [node, parent, key];
    for (const field in node)
      for (const item of [node[field]].flat()) if (item?.type && field !== "loc") parts.push([item, node, field]);
    for (const part of parts.reverse()) stack.push(part); // not as arguments: there may be more than fit
  }
}

function propertyName(node) {
  if (node.computed) return literal(node.property);
  return node.property.type === "Identifier" ? node.property.name : undefined;
}

// A name that is looked up, and not one that is made up here: a property, a label, what is declared.
function isReference(parent, key) {
  if (!parent) return false;
  if (parent.type === "MemberExpression") return key === "object" || parent.computed;
  if (parent.type === "Property" || parent.type === "MethodDefinition" || parent.type === "PropertyDefinition")
    return key === "value" || parent.computed;
  return !(/^(?:Labeled|Break|Continue)Statement$|^(?:Import|Export).*Specifier$/.test(parent.type)
    || (key === "id" || key === "params" || key === "label"));
}

function isMissing(require, name) {
  if (Module.builtinModules.includes(name)) return false;
  try {
    require.resolve(name);
    return false;
  } catch (error) {
    return error.code === "MODULE_NOT_FOUND";
  }
}

function look(bytes, order, path) {
  const noFacts = { imports: [], missing: [], network: [], processes: [], files: [], pure: false };
  const alone = (line, column, rule, message, advice) =>
    ({ findings: [{ line, column, rule, message: message.slice(0, 250), advice, severity: "warning" }], facts: noFacts });
  if (bytes.length > CODE_MAX)
    return alone(1, 1, "size", `the code has ${bytes.length} bytes; more than ${CODE_MAX} are not looked at`, "give data as an input file, and not as code");
  const reader = new Reader(order);
  let tree;
  try {
    tree = parse(bytes.toString());
    reader.walk(tree);
  } catch (error) {
    if (error instanceof SyntaxError)
      return alone(error.loc?.line ?? 1, (error.loc?.column ?? 0) + 1, "syntax", `this is not JavaScript: ${error.message}`, "correct the line; the parser stopped here");
    if (error instanceof RangeError)
      return alone(1, 1, "nesting", "expressions are nested deeper than the parser goes", "take it apart into several statements");
    throw error;
  }
  if (reader.depth > NESTING_MAX)
    reader.add({ line: 1, column: 0 }, "nesting", `expressions are nested ${reader.depth} deep, more than ${NESTING_MAX}`, "take it apart into several statements, or read it as data");
  const facts = reader.facts(path);
  if (order.mode === "only") {
    const needs = new Needs(reader);
    needs.read(tree);
    const imports = facts.imports.map((name) => `the ${Module.builtinModules.includes(name) ? "module" : "package"} ${name}`);
    facts.beyond = [...imports, ...needs.beyond].slice(0, NAMES_MAX).map((name) => name.slice(0, 250));
    facts.computes = needs.computes;
    facts.pure &&= ![...needs.beyond].some((name) => WITH_EFFECT.has(name.split(".")[0]));
  }
  const found = [...reader.findings.values()];
  const byPlace = (one, other) => one.line - other.line || one.column - other.column;
  // Warnings first: where none is among those that are told, there is none.
  const told = found.sort(byPlace).sort((one, other) => (one.severity === "note") - (other.severity === "note")).slice(0, FINDINGS_MAX);
  const report = { findings: told.sort(byPlace), facts };
  if (found.length > FINDINGS_MAX) report.more = found.length - FINDINGS_MAX;
  return report;
}

module.exports = { look, EVERYWHERE, PARTS };

if (require.main === module) {
  const input = require("fs").readFileSync(0);
  const end = input.indexOf(10);
  process.stdout.write(JSON.stringify(look(input.subarray(end + 1), JSON.parse(input.subarray(0, end)), __filename)));
}
