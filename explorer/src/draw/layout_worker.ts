// The layout, off the main thread: ForceAtlas2 in small batches, positions after each.
import iterate from "graphology-layout-forceatlas2/iterate.js";

const PER_NODE = 10;
const IS_FIXED = 9;

export interface LayoutJob {
  run: number;
  nodes: Float32Array;
  edges: Float32Array;
  rounds: number;
}
export interface LayoutStep {
  run: number;
  positions: Float32Array;
  isLast: boolean;
}

let current = 0;

self.onmessage = ({ data }: MessageEvent<LayoutJob | { stop: true }>) => {
  current += 1;
  if (!("stop" in data)) step(data, current, 0);
};

function step(job: LayoutJob, mine: number, done: number): void {
  if (mine !== current) return;
  const order = job.nodes.length / PER_NODE;
  const settings = {
    linLogMode: false,
    outboundAttractionDistribution: false,
    adjustSizes: false,
    edgeWeightInfluence: 1,
    scalingRatio: order < 200 ? 12 : 4,
    strongGravityMode: order < 60,
    gravity: order < 60 ? 0.08 : 1,
    slowDown: 1 + Math.log(Math.max(order, 2)),
    barnesHutOptimize: order > 1000,
    barnesHutTheta: 0.8,
  };
  const from = performance.now();
  while (done < job.rounds && performance.now() - from < 120) {
    iterate(settings, job.nodes, job.edges);
    done += 1;
  }
  const positions = new Float32Array(order * 2);
  for (let place = 0; place < order; place += 1) {
    positions[place * 2] = job.nodes[place * PER_NODE] as number;
    positions[place * 2 + 1] = job.nodes[place * PER_NODE + 1] as number;
  }
  const isLast = done >= job.rounds;
  self.postMessage({ run: job.run, positions, isLast } satisfies LayoutStep, { transfer: [positions.buffer] });
  // A pause, so that a message to stop is read.
  if (!isLast) setTimeout(() => step(job, mine, done), 0);
}

export { PER_NODE, IS_FIXED };
