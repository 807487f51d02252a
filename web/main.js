// Begins everything: pages by the address, theme, key, help.
import * as api from "./api.js";
import { find, findAll, notify } from "./dom.js";
import { readerOf } from "./examples.js";
import { Files, acceptDrops, chipStrip } from "./files.js";
import { PoolPage } from "./pool.js";
import { DataPage } from "./profile.js";
import { RunPage } from "./run.js";
import { SessionPage } from "./session.js";
import { Workbench } from "./workbench.js";

const PAGES = ["run", "session", "data", "pool"];
const TITLES = { run: "Run", session: "Session", data: "Data", pool: "Pool" };

const files = new Files();
const workbench = new Workbench({
  onRun: (code) => pages[workbench.mode].run(code),
  onStop: () => pages[workbench.mode].stop(),
  onPlace: (place, language) => workbench.mode === "run" && pages.run.place(place, language),
  onLanguage: (language) => workbench.mode === "session" && pages.session.changeLanguage(language),
});
const pages = {
  run: new RunPage(workbench, files),
  session: new SessionPage(workbench, files),
  data: new DataPage(files, { onUse: useFile }),
  pool: new PoolPage(),
};
let shown = null;

function useFile(item, page) {
  files.setUsed(item, true);
  location.hash = `#/${page}`;
  showPage();
  workbench.setLanguage("python");
  workbench.setCode(readerOf(item.name, item.profile?.format));
  workbench.editor.focus();
}

function showPage() {
  const [wanted, part] = location.hash.replace(/^#\/?/, "").split("/");
  let page = PAGES.includes(wanted) ? wanted : "run";
  const isBench = page === "run" || page === "session";
  if (isBench && workbench.isBusy && page !== workbench.mode) { // both pages share the bench
    notify("A run is under way: stop it first");
    page = workbench.mode;
    history.replaceState(null, "", `#/${page}`);
  }
  find("#page-workbench").hidden = !isBench;
  find("#page-data").hidden = page !== "data";
  find("#page-pool").hidden = page !== "pool";
  find("#history").hidden = page !== "session";
  find("#page-workbench").classList.toggle("with-history", page === "session");
  for (const link of findAll(".pages a")) {
    if (link.dataset.page === page) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
  }
  document.title = `${TITLES[page]} · Cloche`;
  if (shown !== page || part !== undefined) {
    if (shown !== page) pages[shown]?.hide?.();
    shown = page;
    pages[page].show(part);
  }
}

// ---- theme ----

function bindTheme() {
  const dark = matchMedia("(prefers-color-scheme: dark)");
  find("#theme-button").addEventListener("click", () => {
    const now = document.documentElement.dataset.theme ?? (dark.matches ? "dark" : "light");
    const next = now === "dark" ? "light" : "dark";
    // Back at what the system wants, it is followed again.
    if ((next === "dark") === dark.matches) {
      delete document.documentElement.dataset.theme;
      localStorage.removeItem("cloche-theme");
    } else {
      document.documentElement.dataset.theme = next;
      localStorage.setItem("cloche-theme", next);
    }
  });
}

// ---- key ----

function bindKey() {
  const dialog = find("#key-dialog");
  const input = find("#key-input");
  let answer = null;
  let tried = false;
  const open = () => new Promise((resolve) => {
    find("#key-wrong").hidden = !tried;
    input.value = "";
    answer = resolve;
    dialog.showModal();
  });
  find("#key-form").addEventListener("submit", (event) => {
    event.preventDefault();
    if (!input.value.trim()) return;
    api.setApiKey(input.value.trim());
    find("#key-button").hidden = false;
    tried = true;
    dialog.close("given");
  });
  dialog.addEventListener("close", () => {
    answer?.(dialog.returnValue === "given");
    dialog.returnValue = "";
    answer = null;
  });
  find("#key-button").hidden = !api.apiKey();
  find("#key-button").addEventListener("click", async () => {
    tried = false;
    if (await open()) files.refresh();
  });
  api.onUnauthorized(() => {
    tried = tried || Boolean(api.apiKey());
    return open();
  });
}

// ---- keys, help ----

function bindKeys() {
  for (const button of findAll("[data-close]")) button.addEventListener("click", () => button.closest("dialog").close());
  find("#help-button").addEventListener("click", () => find("#help-dialog").showModal());
  document.addEventListener("keydown", (event) => {
    const typing = event.target.closest?.("input:not([type=range]), textarea, select");
    if ((event.ctrlKey || event.metaKey) && event.key === "." && workbench.isBusy) {
      event.preventDefault();
      pages[workbench.mode].stop();
    } else if ((event.ctrlKey || event.metaKey) && event.key === "Enter" && !find("#page-workbench").hidden && !find("dialog[open]")) {
      event.preventDefault();
      workbench.press();
    } else if (event.altKey && /^[1-4]$/.test(event.key)) {
      event.preventDefault();
      location.hash = `#/${PAGES[Number(event.key) - 1]}`;
    } else if (event.key === "?" && !typing) find("#help-dialog").showModal();
  });
}

// ---- is the server there ----

async function watchServer() {
  const state = find("#server-state");
  const show = (kind, text) => {
    state.className = `server-state ${kind}`;
    if (find(".server-text", state).textContent !== text) find(".server-text", state).textContent = text;
  };
  for (;;) {
    if (!document.hidden) {
      try {
        const response = await fetch("/ready", { cache: "no-store" });
        show(response.ok ? "good" : "warn", response.ok ? "ready" : "not ready");
      } catch {
        show("bad", "not reached");
      }
    }
    await new Promise((done) => setTimeout(done, 5000));
  }
}

bindTheme();
bindKey();
bindKeys();
chipStrip(find("#files-strip"), files, (item) => {
  location.hash = `#/data/${encodeURIComponent(item.name)}`;
});
acceptDrops(files);
addEventListener("hashchange", showPage);
showPage();
watchServer();
files.refresh();
