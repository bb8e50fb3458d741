// Health, head and running operations, asked again while the page can be seen.
import { useEffect, useState } from "preact/hooks";
import { client, take } from "./api";
import { branch, graph } from "./location";
import { reachable } from "./reachable";
import { commit, commits, graphs, isPinned, mayI, refresh } from "./store";
import { Button } from "./ui/parts";

interface Pulse {
  isReady: boolean;
  version: string;
  damaged: number;
  running: number;
  pending: number;
  head: string | null;
}

const SECONDS = 5;

export function Footer() {
  const [pulse, setPulse] = useState<Pulse | null>(null);
  useEffect(() => {
    let isOver = false;
    let timer = 0;
    const beat = async () => {
      if (!document.hidden) {
        const found = await readPulse().catch(() => null);
        if (isOver) return;
        setPulse(found);
      }
      timer = setTimeout(() => void beat(), SECONDS * 1000);
    };
    void beat();
    return () => {
      isOver = true;
      clearTimeout(timer);
    };
  }, [graph.value, branch.value, graphs.value, commits.value]);
  const isBehind = pulse?.head && commits.value[0] && pulse.head !== commits.value[0].id && !isPinned.value;
  return (
    <footer>
      <span class={`health ${reachable.value && pulse?.isReady !== false ? "good" : "bad"}`}>
        {!reachable.value ? "server gone" : !pulse ? "…" : pulse.isReady ? "healthy" : "busy"}
      </span>
      {pulse && <span>omnigraph {pulse.version}</span>}
      {commit.value && (
        <span>
          at <code title={commit.value}>{commit.value.slice(-8)}</code> of {branch.value}
          {isPinned.value && " (an earlier state)"}
        </span>
      )}
      {isBehind && <Button onClick={refresh}>There are newer commits: show them</Button>}
      {pulse && pulse.pending > 0 && <span class="tag">{pulse.pending === 1 ? "1 write" : `${pulse.pending} writes`} in progress or waiting for recovery</span>}
      {pulse && pulse.running > 0 && <span class="tag">{pulse.running} running</span>}
      {pulse && pulse.damaged > 0 && <span class="tag bad">{pulse.damaged} damaged files</span>}
    </footer>
  );
}

async function readPulse(): Promise<Pulse> {
  const ready = await client.GET("/readyz");
  const health = ready.response.ok ? undefined : await take(client.GET("/healthz"));
  const found: Pulse = {
    isReady: ready.response.ok,
    version: ready.data?.version ?? health?.version ?? "",
    damaged: ready.data?.scrub?.damaged_files ?? 0,
    running: 0,
    pending: 0,
    head: null,
  };
  if (!graphs.value?.some((one) => one.id === graph.value) || !mayI("read")) return found;
  const path = { graph: graph.value };
  const newest = await take(client.GET("/graphs/{graph}/commits", { params: { path, query: { branch: branch.value, limit: 1 } } }));
  found.head = newest.commits[0]?.id ?? null;
  found.running = (await take(client.GET("/graphs/{graph}/running", { params: { path } }))).running.length;
  found.pending = (await take(client.GET("/graphs/{graph}/operations", { params: { path } }))).pending.length;
  return found;
}
