// What every scenario does with the playground.
export const write = (page, code) => page.fill(".editor-area", code);
export const idle = (page) => page.waitForSelector("#run:not([hidden])");
export const outcome = (page) => page.textContent("#outcome .outcome-title");
export const output = (page) => page.textContent("#output");

export async function run(page, code) {
  if (code !== undefined) await write(page, code);
  await page.evaluate(() => document.querySelector("#output").append(Object.assign(document.createElement("i"), { id: "before" })));
  await page.click("#run");
  await page.waitForSelector("#before", { state: "detached" }); // it has begun, and may be over already
  await idle(page);
}
