// Drives a real Chromium for the tests: each line of stdin is a command in JavaScript, each line of stdout its outcome.
// It is told where `explorer/` is, so that it finds playwright-core there, and in which directory Chromium lies.
import { spawnSync } from "node:child_process";
import { existsSync, mkdirSync, readFileSync, renameSync, rmSync } from "node:fs";
import { createRequire } from "node:module";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { pathToFileURL } from "node:url";

const [, , explorer, home] = process.argv;
const require = createRequire(join(explorer, "package.json"));
const load = async (name) => {
  const found = await import(pathToFileURL(require.resolve(name)).href);
  return found.chromium ? found : (found.default ?? found);
};

/** Unpack Chromium into a directory of the project: by default its package runs whatever lies in the temporary one. */
async function unpack() {
  const wanted = JSON.parse(readFileSync(join(explorer, "node_modules/@sparticuz/chromium/package.json"), "utf8")).version;
  const place = join(home, wanted);
  if (!existsSync(join(place, "chromium"))) {
    const own = join(home, `unpacking-${process.pid}`);
    mkdirSync(own, { recursive: true });
    process.env.TMPDIR = own;
    const packed = await load("@sparticuz/chromium");
    await packed.executablePath();
    rmSync(place, { recursive: true, force: true });
    renameSync(own, place);
  }
  delete process.env.TMPDIR;
  const executable = join(place, "chromium");
  const { stdout, stderr } = spawnSync(executable, ["--version"], { encoding: "utf8" });
  if (!stdout) throw new Error(`Chromium does not start: ${stderr}`);
  const [major] = wanted.split(".");
  if (!stdout.includes(` ${major}.`)) throw new Error(`Chromium ${wanted} was expected, and ${stdout} runs`);
  return executable;
}

const { chromium } = await load("playwright-core");
const axe = require.resolve("axe-core");
const browser = await chromium.launch({
  executablePath: await unpack(),
  args: ["--no-sandbox", "--ignore-gpu-blocklist", "--use-gl=angle", "--use-angle=swiftshader", "--enable-unsafe-swiftshader", "--disable-dev-shm-usage"],
});
let context = null;
let page = null;
let seen = { console: [], requests: [] };
/** Every request since it was asked last, of all pages. */
let everything = [];

/** A page of its own, as a person opens it: with a token for the tab, or none. */
async function open({ url, token = null, scheme = "light", width = 1360, height = 900, ...more }) {
  await context?.close();
  seen = { console: [], requests: [] };
  context = await browser.newContext({ colorScheme: scheme, viewport: { width, height }, acceptDownloads: true, reducedMotion: "reduce", ...more });
  if (token) await context.addInitScript((given) => sessionStorage.getItem("omnigraph-token") ?? sessionStorage.setItem("omnigraph-token", given), token);
  await context.addInitScript(() => {
    addEventListener("securitypolicyviolation", (found) => console.error(`policy: ${found.effectiveDirective} ${found.blockedURI} ${found.sample}`));
  });
  page = await context.newPage();
  page.setDefaultTimeout(Number(process.env.EXPLORER_TIMEOUT ?? 60_000));
  page.on("console", (message) => {
    // What the software rasteriser says about itself is no complaint about the page.
    if (["error", "warning"].includes(message.type()) && !/GL Driver Message|swiftshader/i.test(message.text())) {
      seen.console.push(`${message.type()}: ${message.text()} ${message.location().url}`);
    }
  });
  page.on("pageerror", (error) => seen.console.push(`exception: ${error.stack}`));
  page.on("request", (request) => {
    const asked = { method: request.method(), url: request.url() };
    seen.requests.push(asked);
    everything.push(asked);
  });
  page.on("dialog", (dialog) => void dialog.accept());
  await page.goto(url);
}

/** Take the requests that were made since. */
function drain() {
  const found = everything;
  everything = [];
  return found;
}

/** What axe-core finds that is serious, as "rule: element". */
async function audit() {
  // The content security policy refuses scripts that are added: the debugger's protocol may run them.
  const session = await context.newCDPSession(page);
  await session.send("Runtime.evaluate", { expression: readFileSync(axe, "utf8") });
  return page.evaluate(async () => {
    const found = await window.axe.run(document, { resultTypes: ["violations"] });
    return found.violations
      .filter((one) => one.impact === "serious" || one.impact === "critical")
      .flatMap((one) => one.nodes.map((node) => `${one.id}: ${node.html.slice(0, 160)} ${node.failureSummary ?? ""}`));
  });
}

/** Wait until the view that is shown has read what it shows. */
async function settled(view) {
  await page.waitForSelector(`.page[data-view="${view}"] [data-state="ready"]`);
}

// A request that a test holds back may end after its page.
process.on("unhandledRejection", (error) => seen.console.push(`rejection: ${error}`));

const AsyncFunction = (async () => undefined).constructor;
const reply = (answer) => process.stdout.write(`${JSON.stringify(answer)}\n`);
reply({ value: browser.version() });
for await (const line of createInterface({ input: process.stdin })) {
  const { code, args } = JSON.parse(line);
  try {
    const run = new AsyncFunction("page", "context", "browser", "args", "open", "audit", "settled", "seen", "drain", code);
    const done = run(page, context, browser, args, open, audit, settled, () => seen, drain);
    // A page that hangs would hold some commands without end.
    const late = new Promise((_, refuse) => setTimeout(() => refuse(new Error(`no end after 150 s: ${code}`)), 150_000).unref());
    reply({ value: (await Promise.race([done, late])) ?? null });
  } catch (error) {
    reply({ error: String(error?.stack ?? error) });
  }
}
await browser.close();
