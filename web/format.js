// Numbers as people read them.

export function bytes(count) {
  if (count === null || count === undefined) return "–";
  const units = ["B", "KB", "MB", "GB", "TB"];
  let value = count;
  let unit = 0;
  while (value >= 1000 && unit < units.length - 1) {
    value /= 1024;
    unit += 1;
  }
  return `${unit === 0 || value >= 100 ? Math.round(value) : Number(value.toFixed(value >= 10 ? 1 : 2))} ${units[unit]}`;
}

export function milliseconds(count) {
  if (count === null || count === undefined || Number.isNaN(count)) return "–";
  if (count === 0) return "0 ms";
  if (count < 1) return `${Math.round(count * 1000)} µs`;
  if (count < 10) return `${Number(count.toFixed(1))} ms`;
  if (count < 1000) return `${Math.round(count)} ms`;
  if (count < 60000) return `${Number((count / 1000).toFixed(count < 10000 ? 2 : 1))} s`;
  const minutes = Math.floor(count / 60000);
  return `${minutes} min ${Math.round((count - minutes * 60000) / 1000)} s`;
}

export function number(value) {
  if (value === null || value === undefined) return "–";
  return Number(value).toLocaleString("en", { maximumFractionDigits: 2 });
}

export function plural(count, one, many = `${one}s`) {
  return `${number(count)} ${count === 1 ? one : many}`;
}

export function ago(time) {
  const seconds = Math.max(0, Math.round((Date.now() - time) / 1000));
  if (seconds < 60) return "just now";
  if (seconds < 3600) return `${Math.floor(seconds / 60)} min ago`;
  return `${Math.floor(seconds / 3600)} h ago`;
}

const BYTE_UNITS = { "": 1, K: 2 ** 10, M: 2 ** 20, G: 2 ** 30, T: 2 ** 40 };

// "512M" → 536870912, as the server reads it.
export function parseBytes(text) {
  const match = /^([\d.]+)([KMGT]?)B?$/i.exec(String(text));
  return match ? Number(match[1]) * BYTE_UNITS[match[2].toUpperCase()] : null;
}

// "10s", "500ms", "2m" → milliseconds.
export function parseTime(text) {
  const match = /^([\d.]+)(ms|s|m|h)?$/.exec(String(text));
  return match ? Number(match[1]) * { ms: 1, s: 1000, m: 60000, h: 3600000 }[match[2] ?? "s"] : null;
}

export function fromBase64(text) {
  const raw = atob(text);
  const data = new Uint8Array(raw.length);
  for (let at = 0; at < raw.length; at += 1) data[at] = raw.charCodeAt(at);
  return data;
}

export function baseName(path) {
  return String(path).split("/").pop();
}
