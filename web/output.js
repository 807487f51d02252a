// The output of one run, in the order in which it came: text, values, pictures, text again; then how it ended.
import { h } from "./dom.js";
import { findingsView } from "./findings.js";
import * as format from "./format.js";
import { liveCard, outcomeCard } from "./outcome.js";
import { errorView, filesView, resultView } from "./results.js";
import { Terminal } from "./terminal.js";

const KEPT_TEXT = 2 << 20; // characters of a record: a run is shown again from it

export class Record {
  constructor() {
    this.items = []; // {kind: stdout | stderr | result, …}
    this.result = null;
    this.failure = null; // a refusal of the server
    this.length = 0;
  }

  static from(plain) {
    return Object.assign(new Record(), plain);
  }

  add(kind, payload) {
    if (kind === "result") {
      this.items.push({ kind, ...payload });
      return;
    }
    if (this.length > KEPT_TEXT) return;
    this.length += payload.length;
    const last = this.items.at(-1);
    if (last?.kind === kind) last.text += payload;
    else this.items.push({ kind, text: payload });
  }

  get text() {
    return this.items.map((item) => (item.kind === "result" ? `${item.media?.["text/plain"] ?? ""}\n` : item.text)).join("");
  }
}

// Bytes that are no text come in base64; they are shown as well as they can be.
export function textOf(data) {
  return data.text ?? new TextDecoder().decode(format.fromBase64(data.bytes ?? ""));
}

export class OutputView {
  // `foot` stays in sight below what scrolls; without it, how a run ended comes last. `onPlace` goes to a place in the code.
  constructor(place, { addressFor, foot = null, onPlace } = {}) {
    this.place = place;
    this.onPlace = onPlace;
    this.foot = foot;
    this.addressFor = addressFor;
    this.clear();
  }

  clear() {
    this.terminal = null;
    this.progress = null;
    this.place.replaceChildren();
    this.foot?.replaceChildren();
  }

  empty(title, text, ...more) {
    this.clear();
    this.place.append(h("div", { class: "output-empty" }, h("strong", {}, title), h("span", {}, text), ...more));
  }

  text(text, stream) {
    if (!this.terminal) {
      const pre = h("pre", { class: "terminal" });
      this.place.append(pre);
      this.terminal = new Terminal(pre);
    }
    this.terminal.write(text, stream);
  }

  #closeText() {
    this.terminal?.flush();
    this.terminal = null;
  }

  result(result) {
    this.#closeText();
    this.place.append(resultView(result));
  }

  showProgress({ fraction, text }) {
    if (!this.progress) {
      this.progress = { bar: h("progress", { max: 1 }), text: h("span") };
      this.progress.element = h("div", { class: "progress" }, this.progress.bar, this.progress.text);
      this.place.prepend(this.progress.element);
    }
    if (fraction === null || fraction === undefined) this.progress.bar.removeAttribute("value");
    else this.progress.bar.value = fraction;
    this.progress.text.textContent = text ?? (fraction === null || fraction === undefined ? "" : `${Math.round(fraction * 100)} %`);
  }

  showUsage(usage, limits) {
    this.foot?.replaceChildren(liveCard(usage, limits));
  }

  item(item) {
    if (item.kind === "result") this.result(item);
    else this.text(item.text, item.kind);
  }

  end(record, limits) {
    const { scrollHeight, scrollTop, clientHeight } = this.place;
    const follows = scrollTop > 0 && scrollHeight - scrollTop - clientHeight < 40;
    this.#closeText();
    this.progress?.element.remove();
    this.foot?.replaceChildren();
    const { result, failure } = record;
    if (failure) {
      this.place.append(h("div", { class: "result-error", role: "alert" },
        h("div", { class: "result-error-head" }, h("strong", {}, failure.title ?? "Refused"), h("span", {}, failure.words)),
        failure.field && h("p", { class: "muted" }, `Field: ${failure.field}`)));
    }
    if (!result) return;
    const findings = findingsView(result.vet, result.cause === "vetted", this.onPlace);
    if (findings) this.place.append(findings);
    if (result.error && result.status !== "ok" && result.cause !== "cancelled") this.place.append(errorView(result.error));
    if (result.files?.length || result.not_collected?.length) {
      this.place.append(filesView(result.files ?? [], result.not_collected, this.addressFor));
    }
    if (!record.items.length && !result.error && !result.files?.length && result.cause !== "vetted") {
      this.place.append(h("p", { class: "silent" }, "Nothing was printed."));
    }
    const cut = Object.values(result.truncated ?? {}).reduce((sum, bytes) => sum + bytes, 0);
    if (cut) this.place.append(h("p", { class: "silent" }, `${format.bytes(cut)} of output were cut by its limit.`));
    (this.foot ?? this.place).append(outcomeCard(result, limits));
    if (follows) this.place.scrollTop = this.place.scrollHeight; // what stays in sight below takes of its room
  }

  // A record from before.
  show(record, limits) {
    this.clear();
    for (const item of record.items) this.item(item);
    if (record.result || record.failure) this.end(record, limits);
    this.place.scrollTop = 0;
  }
}
