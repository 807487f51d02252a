// Values as text, as node's util.inspect writes them.
const LINE = 72;
const ITEMS = 100;

const nameOf = (value) => Object.getPrototypeOf(value)?.constructor?.name;
const isName = (text) => /^[A-Za-z_$][\w$]*$/.test(text);

function quoted(text) {
  return text.includes("'") ? JSON.stringify(text) : `'${JSON.stringify(text).slice(1, -1).replaceAll('\\"', '"')}'`;
}

function inspect(value, { depth = 4 } = {}) {
  return write(value, depth, []);
}

function write(value, depth, above) {
  switch (typeof value) {
    case "string": return quoted(value);
    case "bigint": return `${value}n`;
    case "function": return /^class\b/.test(Function.prototype.toString.call(value)) ? `[class ${value.name || "(anonymous)"}]` : `[Function${value.name ? `: ${value.name}` : " (anonymous)"}]`;
    case "object": return value === null ? "null" : writeObject(value, depth, above);
    case "number": return Object.is(value, -0) ? "-0" : String(value);
    default: return String(value);
  }
}

function writeObject(value, depth, above) {
  if (above.includes(value)) return "[Circular]";
  if (value instanceof Error) return stackOf(value);
  if (value instanceof RegExp) return String(value);
  if (value instanceof Date) return Number.isNaN(value.getTime()) ? "Invalid Date" : value.toISOString();
  const isList = Array.isArray(value) || (ArrayBuffer.isView(value) && !(value instanceof DataView));
  const name = nameOf(value) ?? "[Object: null prototype]";
  if (depth < 0) return isList ? `[${name}]` : `[${name}]`;
  const next = (item) => write(item, depth - 1, [...above, value]);
  const fields = Object.keys(value).filter((key) => !isList || !/^\d+$/.test(key))
    .map((key) => `${isName(key) ? key : quoted(key)}: ${fieldOf(value, key, next)}`);
  if (isList) return joined(name === "Array" ? "" : `${name}(${value.length}) `, [...listItems(value, next), ...fields], "[", "]");
  if (value instanceof Map) return joined(`Map(${value.size}) `, [...items(value, ([key, item]) => `${next(key)} => ${next(item)}`), ...fields]);
  if (value instanceof Set) return joined(`Set(${value.size}) `, [...items(value, next), ...fields]);
  return joined(name === "Object" ? "" : `${name} `, fields);
}

// What a getter would give is not asked for: it may do anything.
function fieldOf(value, key, next) {
  const field = Object.getOwnPropertyDescriptor(value, key);
  return field?.get ? "[Getter]" : next(field ? field.value : value[key]);
}

function items(values, next) {
  const written = [];
  for (const item of values) {
    if (written.length === ITEMS) return [...written, `… ${(values.size ?? values.length) - ITEMS} more`];
    written.push(next(item));
  }
  return written;
}

function listItems(list, next) {
  return items({ length: list.length, * [Symbol.iterator]() {
    for (let at = 0; at < list.length; at += 1) yield at;
  } }, (at) => (at in list ? next(list[at]) : "<empty>"));
}

function joined(head, parts, open = "{", close = "}") {
  if (!parts.length) return `${head}${open}${close}`;
  const line = `${head}${open} ${parts.join(", ")} ${close}`;
  if (line.length <= LINE && !line.includes("\n")) return line;
  const isShort = parts.length > 6 && parts.every((part) => part.length <= 8); // numbers and the like, by rows
  const rows = isShort ? chunks(parts, 12).map((row) => row.join(", ")) : parts;
  return `${head}${open}\n${rows.map((part) => `  ${part.replaceAll("\n", "\n  ")}`).join(",\n")}\n${close}`;
}

function chunks(list, size) {
  return Array.from({ length: Math.ceil(list.length / size) }, (_, at) => list.slice(at * size, (at + 1) * size));
}
