// Performs scenarios in a real browser: a name comes in as a line, what came of it goes out as one.
//   node driver.mjs BASE_URL SCREENSHOTS
import fs from "node:fs";
import readline from "node:readline";
import { createRequire } from "node:module";
import * as atPage from "./scenarios_page.mjs";
import * as atServer from "./scenarios.mjs";
import * as atFilter from "./scenarios_vet.mjs";

const scenarios = { ...atServer, ...atPage, ...atFilter };
const settings = { ...atServer.settings, ...atPage.settings, ...atFilter.settings };

const [base, pictures] = process.argv.slice(2);
const { chromium } = createRequire(`${process.env.CLOCHE_NODE_MODULES}/`)("playwright-core");

const WAIT_MS = 40000; // what takes long on a machine that does other things too is not wrong

// What would go unnoticed: errors of scripts, and everything that the page's policy refused.
function listen(page, faults, tolerates) {
  page.on("pageerror", (error) => faults.push(`error: ${error.message}`));
  page.on("console", (message) => {
    const text = message.text();
    if (message.type() === "error" && !/status of 4\d\d|net::ERR_ABORTED/.test(text) && !tolerates?.test(text)) faults.push(`console: ${text}`);
  });
}

async function perform(browser, name) {
  const { options = {}, ...rest } = settings[name] ?? {};
  const context = await browser.newContext({ viewport: { width: 1360, height: 850 }, acceptDownloads: true, ...options });
  const page = await context.newPage();
  page.setDefaultTimeout(WAIT_MS);
  const faults = [];
  listen(page, faults, rest.tolerates);
  const shot = (title) => page.screenshot({ path: `${pictures}/${title}.png` });
  try {
    await page.goto(`${base}/${rest.hash ?? "#/run"}`);
    await page.waitForSelector(".server-state.good");
    await scenarios[name]({ page, context, base, shot });
    if (faults.length) throw new Error(`the page complained:\n${faults.join("\n")}`);
    return { ok: true };
  } catch (error) {
    await shot(`failed-${name}`).catch(() => {});
    return { ok: false, error: `${error.stack ?? error}\n${faults.join("\n")}` };
  } finally {
    await context.close();
  }
}

fs.mkdirSync(pictures, { recursive: true });
// Requests to this machine are held back for documents that tests have changed, which would hide that nothing else does it.
// The browser's own sandbox needs user namespaces or a set-uid program; tests run as root, often in a container.
const browser = await chromium.launch({ executablePath: process.env.CLOCHE_CHROMIUM ?? "/usr/bin/chromium", args: ["--no-sandbox", "--disable-gpu", "--disable-features=LocalNetworkAccessChecks"] });
console.log(JSON.stringify({ ready: true }));
for await (const line of readline.createInterface({ input: process.stdin })) {
  console.log(JSON.stringify(await perform(browser, line.trim())));
}
await browser.close();
