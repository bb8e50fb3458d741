// Hands a graph to the layout worker, and its positions back.
import type { MultiDirectedGraph } from "graphology";
import type { LayoutStep } from "./layout_worker";

const PER_NODE = 10;
const PER_EDGE = 3;

export interface Layout {
  /** Lay out; `stretch` is how much wider than high the picture is. */
  start(graph: MultiDirectedGraph, pinned: ReadonlySet<string>, stretch: number, onStep: (isLast: boolean) => void): void;
  stop(): void;
  end(): void;
}

export function startLayout(): Layout {
  const worker = new Worker(new URL(LAYOUT_WORKER, document.baseURI), { type: "module" });
  let run = 0;
  return {
    start(graph, pinned, stretch, onStep) {
      run += 1;
      const mine = run;
      const keys = graph.nodes();
      const places = new Map(keys.map((key, place) => [key, place]));
      const nodes = new Float32Array(keys.length * PER_NODE);
      keys.forEach((key, place) => {
        const at = place * PER_NODE;
        nodes[at] = graph.getNodeAttribute(key, "x") / stretch;
        nodes[at + 1] = graph.getNodeAttribute(key, "y");
        nodes[at + 6] = 1 + graph.degree(key);
        nodes[at + 7] = 1;
        nodes[at + 8] = graph.getNodeAttribute(key, "size");
        nodes[at + 9] = pinned.has(key) ? 1 : 0;
      });
      const edges = new Float32Array(graph.size * PER_EDGE);
      let at = 0;
      graph.forEachEdge((_, __, from, to) => {
        edges[at] = (places.get(from) as number) * PER_NODE;
        edges[at + 1] = (places.get(to) as number) * PER_NODE;
        edges[at + 2] = 1;
        at += PER_EDGE;
      });
      // Positions are taken between frames; of large pictures less often, because each costs a pass over the elements.
      const pause = keys.length + graph.size > 4000 ? 500 : 0;
      let last = 0;
      worker.onmessage = ({ data }: MessageEvent<LayoutStep>) => {
        if (data.run !== run || run !== mine) return;
        if (!data.isLast && performance.now() - last < pause) return;
        last = performance.now();
        // Written in place, without an event for each: the caller has all of them drawn at once.
        graph.forEachNode((key, attributes) => {
          const place = places.get(key);
          if (place === undefined || pinned.has(key)) return;
          attributes.x = (data.positions[place * 2] as number) * stretch;
          attributes.y = data.positions[place * 2 + 1];
        });
        onStep(data.isLast);
      };
      const rounds = keys.length < 300 ? 600 : keys.length < 2000 ? 250 : 100;
      worker.postMessage({ run, nodes, edges, rounds }, [nodes.buffer, edges.buffer]);
    },
    stop() {
      run += 1;
      worker.postMessage({ stop: true });
    },
    end: () => worker.terminate(),
  };
}
