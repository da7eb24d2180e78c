// A page in a real browser, the one that npm brings. Argument: the page's address. It is left when the element `#state`
// begins with "done", "closed" or "error"; printed are its texts by their ids, and all that it held, asked and said.
//
// The browser is unpacked into TMPDIR, with the libraries it needs: the variable is how its package is told to.
process.env.AWS_LAMBDA_JS_RUNTIME = "nodejs24.x";
const { default: packed } = await import("@sparticuz/chromium");
const { chromium } = await import("playwright-core");

const [address] = process.argv.slice(2);
const browser = await chromium.launch({ executablePath: await packed.executablePath(), args: ["--no-sandbox"] });
const page = await browser.newPage();

const traffic = [];
const faults = [];
page.on("request", async (request) => traffic.push([request.url(), JSON.stringify(await request.allHeaders())]));
page.on("websocket", (socket) => {
  traffic.push([socket.url()]);
  socket.on("framesent", ({ payload }) => traffic.push(["sent", String(payload)]));
  socket.on("framereceived", ({ payload }) => traffic.push(["received", String(payload)]));
});
page.on("pageerror", (error) => faults.push(error.message));

await page.goto(address);
await page.waitForFunction(() => /^(done|closed|error)/.test(document.querySelector("#state").textContent), null, {
  timeout: 20_000,
});
const texts = await page.$$eval("[id]", (all) => Object.fromEntries(all.map((one) => [one.id, one.textContent])));
const held = await page.evaluate(() => JSON.stringify([document.cookie, { ...localStorage }, { ...sessionStorage }]));
const html = await page.content();
const version = browser.version();
await browser.close();
console.log(JSON.stringify({ texts, html, held, traffic, faults, version }));
