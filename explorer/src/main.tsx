import { render } from "preact";
import { App } from "./app";
import { client, take } from "./api";
import { followAddress, go } from "./location";
import { isOpen, signedOutBecause, signIn, token } from "./session";
import { startStore } from "./store";

/** A code in the fragment is good once: exchange it for a token, and take it out of the address before anything else. */
async function redeemCode(): Promise<void> {
  const fragment = new URLSearchParams(location.hash.slice(1));
  const code = fragment.get("code");
  if (!code) return;
  const graph = fragment.get("graph");
  history.replaceState(null, "", `${location.pathname}#/${encodeURIComponent(graph ?? "")}/${fragment.get("view") ?? "graph"}`);
  try {
    const found = await take(client.POST("/explorer/token", { body: { code } }));
    signIn(found.token);
  } catch {
    signedOutBecause.value = "This link was already used, or is older than a minute. Run `omnigraph explore` again.";
  }
}

/** A server without authentication answers without a token. */
async function findWhetherOpen(): Promise<void> {
  if (token.value) return;
  const { response } = await client.GET("/me");
  isOpen.value = response.ok;
}

async function start(): Promise<void> {
  await redeemCode();
  if (!signedOutBecause.value) await findWhetherOpen().catch(() => undefined);
  followAddress();
  go({}, true);
  startStore();
  render(<App />, document.getElementById("page") as HTMLElement);
}

void start();
